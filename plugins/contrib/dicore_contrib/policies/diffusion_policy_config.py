"""Options of diffusion policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dicore.config import (
    CollectConfig,
    ComponentConfig,
    PolicyConfig,
    component,
    frozen,
    option,
    section,
)
from dicore.interfaces.env import EnvSpec
from dicore_contrib.policies.imitation_config import ImitationConfig, ImitationLearnConfig
from dicore_plugins.models import (
    action_dims_option,
    action_high_option,
    action_low_option,
    box_options,
    options_for,
)
from dicore_plugins.policies import builds, expect_one_agent

__all__ = ["DiffusionLearnConfig", "DiffusionPolicyConfig"]


@frozen(kw_only=True)
class DiffusionLearnConfig(ImitationLearnConfig):
    """Options of learning."""

    batch_size: int = option(256, "sequences per gradient update", ge=1)
    learning_rate: float = option(3e-4, "learning rate", gt=0, lt=float("inf"))
    optimizer: ComponentConfig = component(
        "optimizer",
        default={"type": "adamw", "weight_decay": 1e-6},
        help="updates the parameters from their gradients",
    )
    ema_power: float = option(
        0.75,
        "acts by averaged parameters, of which update n changes the share (1 + n)^-power",
        ge=0,
    )
    ema_decay: float = option(
        0.9999, "most of the averaged parameters that an update keeps; 0: no averages", ge=0, lt=1
    )


@frozen(kw_only=True)
class DiffusionPolicyConfig(ImitationConfig):
    """Diffusion policy: draws plans like those of demonstrations (Chi et al. 2023)."""

    derived: ClassVar[tuple[str, ...]] = ("timestep", "steps_to_go")
    """Columns that a dataset must derive."""
    fixed_by_spaces: ClassVar[tuple[str, ...]] = (
        *PolicyConfig.fixed_by_spaces,
        *("action_low", "action_high", "action_dims"),
    )

    model: ComponentConfig = component(
        "model", default="denoiser", help="predicts the noise in plans"
    )
    action_steps: int = option(
        8, "steps of a plan that are acted before the next plan; 1: plans at each step", ge=1,
        unit="env steps",
    )  # fmt: skip
    diffusion_steps: int = option(100, "steps of the diffusion, over which noise is added", ge=1)
    sample_steps: int = option(
        10, "steps in which a plan is drawn; fewer are faster; at most diffusion_steps", ge=1
    )
    eta: float = option(
        0.0, "noise that is drawn on the way; 0: none (DDIM), 1: as much as was added (DDPM)",
        ge=0, le=1,
    )  # fmt: skip
    action_low: tuple[float, ...] | None = action_low_option()
    action_high: tuple[float, ...] | None = action_high_option()
    action_dims: tuple[int, ...] | None = action_dims_option()
    learn: DiffusionLearnConfig = section(DiffusionLearnConfig)
    collect: CollectConfig = section(
        CollectConfig,
        n_sample=None,
        n_episode=1,
        unroll_len=option(
            17,
            "steps of a sequence: those of a plan, and model.obs_steps - 1 before it; set"
            " pipeline.dataset.unroll_len to the same",
            ge=2,
            unit="env steps",
        ),
    )

    build = builds("dicore_contrib.policies.diffusion_policy:DiffusionPolicy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model and the range of actions from the spaces.

        Raises:
            ConfigError: actions are no bounded real numbers, or observations have no fixed size.
        """
        expect_one_agent(self.type or "diffusion_policy", spec)
        found = box_options(spec.action, algorithm=self.type or "diffusion_policy")
        return {**options_for(self.model, spec.observation), **found}

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        length, seen = self.collect.unroll_len, self.model.get("obs_steps") or 1
        if self.sample_steps > self.diffusion_steps:
            yield "sample_steps", f"must be <= diffusion_steps = {self.diffusion_steps}"
        if seen > length:
            yield "model.obs_steps", f"must be <= {length}, collect.unroll_len"
        elif self.action_steps > length - seen + 1:
            yield (
                "action_steps",
                f"must be <= {length - seen + 1}, the steps of a plan"
                " (collect.unroll_len - model.obs_steps + 1)",
            )
        if self.learn.ema_decay == 0 and self.learn.ema_power != 0.75:
            yield "learn.ema_power", "has no effect without ema_decay; leave it out"
