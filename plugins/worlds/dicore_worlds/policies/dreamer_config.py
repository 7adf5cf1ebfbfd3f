"""Options of DreamerV3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from dicore.config import (
    CollectConfig,
    ComponentConfig,
    LearnConfig,
    OtherConfig,
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
from dicore_plugins.optimizers import optimizer_problems
from dicore_plugins.policies import builds, expect_one_agent
from dicore_worlds.pixels import check_pixels
from dicore_worlds.policies.replay import replay_problems

__all__ = ["DreamerCollectConfig", "DreamerConfig", "DreamerLearnConfig"]


@frozen(kw_only=True)
class DreamerLearnConfig(LearnConfig):
    """Options of learning."""

    batch_size: int = option(
        16, "sequences per gradient update, of other.replay_buffer.unroll_len steps each", ge=1
    )
    update_per_collect: int | None = option(
        4,
        "gradient updates after each collect; raise for sample efficiency. The train ratio of the"
        " paper is this times the steps of a batch / n_sample",
        ge=1,
    )
    learning_rate: float = option(
        1e-4, "learning rate of the world model; raise it for small models", gt=0, lt=float("inf")
    )
    behaviour_learning_rate: float = option(
        3e-5, "learning rate of actor and critic", gt=0, lt=float("inf")
    )
    max_grad_norm: float | None = option(
        1000.0, "maximum gradient norm of the world model; None: off", gt=0
    )
    behaviour_max_grad_norm: float | None = option(
        100.0, "maximum gradient norm of actor and critic; None: off", gt=0
    )
    optimizer: ComponentConfig = component(
        "optimizer", default="adam", help="updates the parameters from their gradients"
    )
    dynamics_weight: float = option(
        0.5, "weight of the loss by which the prior follows the posterior", ge=0
    )
    representation_weight: float = option(
        0.1, "weight of the loss by which the posterior becomes predictable", ge=0
    )
    free_nats: float = option(
        1.0, "divergence of prior and posterior that costs nothing", ge=0, unit="nats"
    )
    horizon: int = option(15, "steps that are imagined", ge=1, unit="steps")
    max_starts: int | None = option(
        None,
        "states of a batch, drawn at random, from which the future is imagined; lower it for speed;"
        " None: all",
        ge=1,
    )
    td_lambda: float = option(0.95, "lambda of the returns of imagined steps", ge=0, le=1)
    entropy_weight: float = option(
        3e-4, "weight of the entropy of actions; raise it for more exploration", ge=0
    )
    target_theta: float = option(
        0.02, "soft-update coefficient tau of the slow critic (Polyak averaging)", gt=0, le=1
    )
    slow_critic_weight: float = option(
        1.0, "weight of the loss that keeps the critic near the slow one", ge=0
    )
    return_decay: float = option(
        0.99, "decay rate of the average range of returns, which divides advantages", ge=0, lt=1
    )


@frozen(kw_only=True)
class DreamerCollectConfig(CollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        8, "env steps per collect; use a multiple of env.collector_env_num", ge=1
    )
    random_collect_size: int = option(
        0, "env steps with random actions before training (like `learning_starts`)", ge=0
    )


_REPLAY = {
    "type": "sequence",
    "replay_buffer_size": 1_000_000,
    "unroll_len": 64,
    "state_keys": ("prev_state",),
}


@frozen(kw_only=True)
class DreamerConfig(PolicyConfig):
    """DreamerV3: learns from futures that a latent world model imagines (Hafner et al. 2023)."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = (
        *PolicyConfig.fixed_by_spaces,
        *("model.continuous", "action_start", "action_low", "action_high", "action_dims"),
    )
    requires: ClassVar[Mapping[str, tuple[object, str]]] = {
        "on_policy": (False, "learns from a replay buffer; set it to False"),
        "multi_gpu": (False, "learns in one process; set it to False"),
        "nstep": (1, "has returns of imagined steps, see learn.td_lambda; set it to 1"),
        "priority": (False, "draws sequences uniformly; set it to False"),
        "priority_IS_weight": (False, "draws sequences uniformly; set it to False"),
        "traj_len_inf": (False, "learns from pieces of episodes; set it to False"),
        "collect.n_episode": (None, "collects samples; use collect.n_sample"),
        "collect.unroll_len": (1, "has its sequences from other.replay_buffer; set it to 1"),
    }

    own_steps_only: ClassVar[bool] = True

    on_policy: bool = option(False, "False: trains from a replay buffer")
    discount_factor: float = option(
        0.997, "discount factor gamma; raise it if rewards are far in the future", ge=0, le=1
    )
    model: ComponentConfig = component(
        "model", default="dreamer", help="world model, actor and critic"
    )
    action_start: int = option(0, "lowest action index (`Discrete.start`); read from the env")
    action_low: tuple[float, ...] | None = action_low_option()
    action_high: tuple[float, ...] | None = action_high_option()
    action_dims: tuple[int, ...] | None = action_dims_option()
    learn: DreamerLearnConfig = section(DreamerLearnConfig)
    collect: DreamerCollectConfig = section(DreamerCollectConfig)
    other: OtherConfig = section(OtherConfig, replay_buffer=_REPLAY)

    build = builds("dicore_worlds.policies.dreamer:DreamerPolicy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model and the range of actions from the spaces.

        Raises:
            ConfigError: actions are neither one choice nor bounded real numbers, or observations
                are no vector or image.
        """
        name = self.type or "dreamer"
        expect_one_agent(name, spec)
        check_pixels(name, spec.observation)
        found = options_for(self.model, spec.observation)
        return {**found, **choice_or_box_options(spec.action, algorithm=name)}

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        for path, problem in optimizer_problems(self.learn):
            yield f"learn.{path}", problem
        yield from replay_problems(self)
        buffer, place = self.other.replay_buffer, "other.replay_buffer"
        keys = buffer.get("state_keys")
        if buffer.get("unroll_len") is None or keys is None:
            yield place, "must be 'sequence', which makes sequences of steps"
        elif tuple(keys) != ("prev_state",):
            yield f"{place}.state_keys", f"must be ['prev_state'], got {[*keys]}"
        elif buffer.get("burn_in") or buffer.get("state_every"):
            yield place, "burn_in and state_every must be 0: the first latent state is stored"
        elif not buffer.get("padding"):
            yield (
                f"{place}.padding",
                "must be True, or the ends of episodes are never seen; set it to true, or leave it"
                " out",
            )
