"""Options of the decision transformer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.config.sections import CollectConfig, EvalConfig, LearnConfig, PolicyConfig
from dicore.interfaces.env import EnvSpec
from dicore_plugins.lazy import builds
from dicore_plugins.models.shapes import (
    action_dims_option,
    action_high_option,
    action_low_option,
    choice_or_box_options,
    options_for,
)
from dicore_plugins.optimizers.config import autocast_option, compile_option, optimizer_problems
from dicore_plugins.policies.required import Required


@frozen(kw_only=True)
class DTLearnConfig(LearnConfig):
    """Options of learning."""

    batch_size: int = option(64, "sequences per gradient update", ge=1)
    learning_rate: float = option(1e-3, "learning rate", gt=0, lt=float("inf"))
    max_grad_norm: float | None = option(
        0.25, "maximum gradient norm; larger gradients are scaled down; None: off", gt=0
    )
    optimizer: ComponentConfig = component(
        "optimizer",
        default={"type": "adamw", "weight_decay": 1e-4},
        help="updates the parameters from their gradients",
    )
    compile: bool = compile_option()
    autocast: Literal["bfloat16", "auto"] | None = autocast_option()


@frozen(kw_only=True)
class DTEvalConfig(EvalConfig):
    """Options of evaluating."""

    target_return: float | None = option(
        None, "return that the policy is to reach; None: the largest of an episode of the data"
    )


@frozen(kw_only=True)
class DTConfig(PolicyConfig):
    """Decision transformer: actions of a wanted return, from a dataset (Chen et al. 2021)."""

    offline: ClassVar[bool] = True
    derived: ClassVar[tuple[str, ...]] = ("return_to_go", "timestep")
    """Columns that a dataset must derive."""
    fixed_by_spaces: ClassVar[tuple[str, ...]] = (
        *PolicyConfig.fixed_by_spaces,
        *("model.continuous", "action_start", "action_low", "action_high", "action_dims"),
    )

    requires: ClassVar[Required] = {
        "nstep": (1, "learns from recorded actions, not from returns; expected 1")
    }

    on_policy: bool = option(False, "False: it trains from a dataset")
    model: ComponentConfig = component("model", default="dt", help="the transformer")
    action_start: int = option(0, "lowest action index (`Discrete.start`); read from the env")
    action_low: tuple[float, ...] | None = action_low_option()
    action_high: tuple[float, ...] | None = action_high_option()
    action_dims: tuple[int, ...] | None = action_dims_option()
    learn: DTLearnConfig = section(DTLearnConfig)
    collect: CollectConfig = section(
        CollectConfig,
        n_sample=None,
        n_episode=1,
        unroll_len=option(
            20,
            "steps of a sequence: what attention sees; set pipeline.dataset.unroll_len to the same",
            ge=2,
            unit="env steps",
        ),
    )
    eval: DTEvalConfig = section(DTEvalConfig)

    build = builds("dicore_plugins.policies.offline.dt:DTPolicy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model from the spaces.

        Raises:
            ConfigError: the actions are neither one discrete choice nor bounded real numbers.
        """
        from dicore_plugins.policies.fitting import expect_one_agent

        if spec.agents or spec.reward_shape:
            expect_one_agent(self.type, spec)
        name, seen = self.type or "dt", options_for(self.model, spec.observation)
        return {**seen, **choice_or_box_options(spec.action, algorithm=name)}

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        for path, problem in optimizer_problems(self.learn):
            yield f"learn.{path}", problem
