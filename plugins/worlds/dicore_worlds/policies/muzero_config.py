"""Options of MuZero and Gumbel MuZero."""

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
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_plugins.models import action_start, discrete_shape, options_for
from dicore_plugins.optimizers import optimizer_problems
from dicore_plugins.policies import builds, expect_one_agent
from dicore_worlds.pixels import check_pixels
from dicore_worlds.policies.replay import replay_problems

__all__ = [
    "EfficientZeroConfig", "GumbelMuZeroConfig", "MuZeroCollectConfig", "MuZeroConfig",
    "MuZeroLearnConfig",
]  # fmt: skip


@frozen(kw_only=True)
class MuZeroLearnConfig(LearnConfig):
    """Options of learning."""

    batch_size: int = option(64, "sequences per gradient update", ge=1)
    update_per_collect: int | None = option(
        16, "gradient updates after each collect; raise for sample efficiency", ge=1
    )
    learning_rate: float = option(1e-3, "learning rate", gt=0, lt=float("inf"))
    max_grad_norm: float | None = option(10.0, "maximum gradient norm; None: off", gt=0)
    optimizer: ComponentConfig = component(
        "optimizer", default="adam", help="updates the parameters from their gradients"
    )
    weight_decay: float = option(1e-4, "weight decay", ge=0)
    value_weight: float = option(
        0.25, "weight of the loss of values beside those of policies and rewards", ge=0
    )
    consistency_weight: float = option(
        0.0, "weight of the loss by which predicted states resemble those of what is seen there"
        " (EfficientZero); 0: off", ge=0,
    )  # fmt: skip
    target_update_freq: int = option(
        100, "updates between copies to the network that values bootstrap from", ge=1
    )
    reanalyze_ratio: float = option(
        0.0,
        "share of a batch whose policies are searched again with that network, and replaced in the"
        " buffer",
        ge=0,
        le=1,
    )


@frozen(kw_only=True)
class MuZeroCollectConfig(CollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        64, "env steps per collect; use a multiple of env.collector_env_num", ge=1
    )
    random_collect_size: int = option(
        0, "env steps with random actions before training (like `learning_starts`)", ge=0
    )
    temperature: float = option(
        1.0, "of the draw among searched actions; 0: the best. A factor of Gumbel's noise", ge=0
    )


_REPLAY = {
    "type": "sequence",
    "replay_buffer_size": 200_000,
    "unroll_len": 10,
    "stride": 1,
    "padding": "all",  # the last nstep of a sequence only bootstrap
}


@frozen(kw_only=True)
class MuZeroConfig(PolicyConfig):
    """MuZero: plans with a latent model that it learns (Schrittwieser et al. 2020)."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = (*PolicyConfig.fixed_by_spaces, "action_start")
    requires: ClassVar[Mapping[str, tuple[object, str]]] = {
        "on_policy": (False, "learns from a replay buffer; set it to False"),
        "multi_gpu": (False, "learns in one process; set it to False"),
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
    nstep: int = option(
        5, "n of n-step returns; raise for delayed rewards (more variance)", ge=1, unit="env steps"
    )
    model: ComponentConfig = component("model", default="muzero", help="latent model for planning")
    planner: ComponentConfig = component(
        "planner", default="puct", help="searches with the model before an action is taken"
    )
    action_start: int = option(0, "lowest action index (`Discrete.start`); read from the env")
    learn: MuZeroLearnConfig = section(MuZeroLearnConfig)
    collect: MuZeroCollectConfig = section(MuZeroCollectConfig)
    other: OtherConfig = section(OtherConfig, replay_buffer=_REPLAY)

    build = builds("dicore_worlds.policies.muzero:MuZeroPolicy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model from the spaces.

        Raises:
            ConfigError: actions are not one choice, or observations are no vector or image.
        """
        name = self.type or "muzero"
        expect_one_agent(name, spec)
        check_pixels(name, spec.observation)
        if type(spec.action).__name__ != "Discrete":
            raise ConfigError(
                f"policy.type: '{name}' needs one discrete action; this env has"
                f" {' '.join(str(spec.action).split())}",
                hint="convert the actions in an env wrapper, or choose another policy",
            )
        return {
            **options_for(self.model, spec.observation),
            "model.action_shape": discrete_shape(spec.action, algorithm=name),
            "action_start": action_start(spec.action),
        }

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        for path, problem in optimizer_problems(self.learn):
            yield f"learn.{path}", problem
        yield from replay_problems(self, self.nstep)
        buffer, place = self.other.replay_buffer, "other.replay_buffer"
        length = buffer.get("unroll_len")
        if length is None or buffer.get("state_keys") is None:
            yield place, "must be 'sequence', which makes sequences of steps"
        elif length <= self.nstep:
            yield (
                f"{place}.unroll_len",
                f"must be above nstep={self.nstep}: the model is unrolled over the rest",
            )
        elif buffer.get("burn_in") or buffer.get("state_keys"):
            yield place, "burn_in must be 0 and state_keys empty: nothing is remembered"
        elif buffer.get("padding") != "all":
            yield (
                f"{place}.padding",
                "must be all, or the ends of episodes are never learned; set it to all, or leave it"
                " out",
            )
        if self.learn.consistency_weight and not self.model.get("projects", True):
            yield "learn.consistency_weight", "must be 0 with model.projects=False"


@frozen(kw_only=True)
class GumbelMuZeroConfig(MuZeroConfig):
    """Gumbel MuZero: improves its policy with few simulations (Danihelka et al. 2022)."""

    planner: ComponentConfig = component(
        "planner", default="gumbel", help="searches with the model before an action is taken"
    )


@frozen(kw_only=True)
class EfficientZeroConfig(GumbelMuZeroConfig):
    """MuZero with a consistency loss, value prefixes and fresh targets (Ye et al. 2021).

    The planner is that of Gumbel MuZero.
    """

    model: ComponentConfig = component(
        "model", default={"type": "muzero", "value_prefix": 5}, help="latent model for planning"
    )
    learn: MuZeroLearnConfig = section(
        MuZeroLearnConfig, consistency_weight=2.0, reanalyze_ratio=0.5
    )
