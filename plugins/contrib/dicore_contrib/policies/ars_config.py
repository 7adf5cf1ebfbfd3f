"""Options of augmented random search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from dicore.config import (
    CollectConfig,
    ComponentConfig,
    LearnConfig,
    PolicyConfig,
    component,
    frozen,
    option,
    section,
)
from dicore.interfaces.env import EnvSpec
from dicore_plugins.models import (
    action_dims_option,
    action_high_option,
    action_low_option,
    choice_or_box_options,
    options_for,
)
from dicore_plugins.policies import builds, expect_one_agent

__all__ = ["ARSCollectConfig", "ARSConfig", "ARSLearnConfig"]


@frozen(kw_only=True)
class ARSLearnConfig(LearnConfig):
    """Options of learning."""

    batch_size: int | None = option(  # type: ignore[assignment] # one step of all episodes
        None, "None: all episodes of a collect give one step", ge=1
    )
    learning_rate: float = option(
        0.02, "length of a step along the weighted directions", gt=0, lt=float("inf")
    )
    top_directions: int | None = option(
        None, "directions with the highest returns that are used; None: all", ge=1
    )
    alive_bonus: float = option(
        0.0, "reward of each env step for being alive, which is subtracted from the returns"
    )


@frozen(kw_only=True)
class ARSCollectConfig(CollectConfig):
    """Options of collecting."""

    n_episode: int | None = option(
        16, "episodes per collect: two for each direction, so an even number", ge=2
    )
    noise: float = option(
        0.05, "standard deviation of the changes of the parameters that are tried", gt=0
    )


@frozen(kw_only=True)
class ARSConfig(PolicyConfig):
    """Augmented random search: tries changes of the parameters (Mania et al. 2018)."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = (
        *PolicyConfig.fixed_by_spaces,
        *("model.continuous", "action_low", "action_high", "action_dims", "action_start"),
    )
    one_learner: ClassVar[str] = "has no gradients to average"
    requires: ClassVar[Mapping[str, tuple[object, str]]] = {
        "on_policy": (True, "learns from the episodes of a collect; set it to True"),
        "multi_gpu": (False, "has no gradients; set it to False"),
        "priority": (False, "has no replay buffer; set it to False"),
        "priority_IS_weight": (False, "has no replay buffer; set it to False"),
        "traj_len_inf": (False, "learns from whole episodes anyway; leave it out"),
        "nstep": (1, "learns from returns of whole episodes; set it to 1"),
        "discount_factor": (1.0, "learns from undiscounted returns; leave it out"),
        "learn.batch_size": (None, "learns from all episodes of a collect; leave it out"),
        "learn.update_per_collect": (1, "takes one step per collect; leave it out"),
        "learn.update_per_step": (None, "takes one step per collect; leave it out"),
        "learn.optimizer": (None, "moves parameters without gradients; leave it out"),
        "learn.ignore_done": (False, "has no values that it would change; set it to False"),
        "collect.n_sample": (None, "collects whole episodes; use collect.n_episode"),
        "collect.unroll_len": (1, "learns from whole episodes; set it to 1"),
    }

    on_policy: bool = option(True, "train only on episodes of the current policy")
    discount_factor: float = option(1.0, "returns are not discounted", ge=0, le=1)
    model: ComponentConfig = component("model", default="ars", help="the policy")
    action_low: tuple[float, ...] | None = action_low_option()
    action_high: tuple[float, ...] | None = action_high_option()
    action_dims: tuple[int, ...] | None = action_dims_option()
    action_start: int = option(0, "first discrete action; read from the env")
    learn: ARSLearnConfig = section(ARSLearnConfig)
    collect: ARSCollectConfig = section(ARSCollectConfig)

    build = builds("dicore_contrib.policies.ars:ARSPolicy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model and the actions from the spaces.

        Raises:
            ConfigError: actions are neither one choice nor bounded real numbers, or observations
                are no vector.
        """
        name = self.type or "ars"
        expect_one_agent(name, spec)
        found = options_for(self.model, spec.observation)
        return {**found, **choice_or_box_options(spec.action, algorithm=name)}

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        buffer: ComponentConfig | None = self.other.replay_buffer  # None: it is no run
        if buffer is not None and buffer != type(buffer)(type="naive"):
            yield "other.replay_buffer", "has no effect, steps are used once; leave it out"
        episodes = self.collect.n_episode
        if episodes is None or episodes % 2:
            yield "collect.n_episode", f"must be even, two for each direction, got {episodes}"
        elif (self.learn.top_directions or 0) > episodes // 2:
            yield (
                "learn.top_directions",
                f"must be <= {episodes // 2}, half of collect.n_episode",
            )
