"""Options of TD-MPC2."""

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
from dicore_plugins.models import (
    action_dims_option,
    action_high_option,
    action_low_option,
    box_options,
    options_for,
)
from dicore_plugins.optimizers import optimizer_problems
from dicore_plugins.policies import builds, expect_one_agent
from dicore_worlds.pixels import check_pixels
from dicore_worlds.policies.replay import replay_problems

__all__ = ["TDMPC2CollectConfig", "TDMPC2Config", "TDMPC2LearnConfig"]


@frozen(kw_only=True)
class TDMPC2LearnConfig(LearnConfig):
    """Options of learning."""

    batch_size: int = option(
        256, "sequences per gradient update, of other.replay_buffer.unroll_len steps each", ge=1
    )
    update_per_collect: int | None = option(
        8, "gradient updates after each collect; that of the paper is collect.n_sample", ge=1
    )
    learning_rate: float = option(
        3e-4, "learning rate; lower it if training is unstable", gt=0, lt=float("inf")
    )
    max_grad_norm: float | None = option(20.0, "maximum gradient norm; None: off", gt=0)
    optimizer: ComponentConfig = component(
        "optimizer", default="adam", help="updates the parameters from their gradients"
    )
    rho: float = option(0.5, "weight of a step relative to the step before it", gt=0, le=1)
    consistency_weight: float = option(20.0, "weight of the loss of latent states", ge=0)
    reward_weight: float = option(0.1, "weight of the loss of rewards", ge=0)
    value_weight: float = option(0.1, "weight of the loss of Q values", ge=0)
    going_weight: float = option(0.1, "weight of the loss of the ends of episodes", ge=0)
    entropy_weight: float = option(
        1e-4, "weight of the entropy of the policy; raise it for more exploration", ge=0
    )
    target_theta: float = option(
        0.01, "soft-update coefficient tau of the target Q networks (Polyak averaging)", gt=0, le=1
    )
    range_decay: float = option(
        0.99, "decay rate of the average range of Q values, which divides them", ge=0, lt=1
    )


@frozen(kw_only=True)
class TDMPC2CollectConfig(CollectConfig):
    """Options of collecting, and of the plans of evaluations."""

    n_sample: int | None = option(
        8, "env steps per collect; use a multiple of env.collector_env_num", ge=1
    )
    random_collect_size: int = option(
        1_000, "env steps with random actions before training (like `learning_starts`)", ge=0
    )
    horizon: int = option(3, "steps of a plan", ge=1, unit="steps")
    iterations: int = option(6, "iterations of planning; fewer are faster", ge=1)
    num_samples: int = option(512, "plans that are drawn in each iteration; fewer are faster", ge=1)
    num_elites: int = option(64, "best plans, which the next ones are drawn around", ge=1)
    num_policy_samples: int = option(24, "further plans, those of the policy", ge=0)
    min_std: float = option(0.05, "lowest standard deviation of plans", gt=0)
    max_std: float = option(2.0, "first and highest standard deviation of plans", gt=0)
    temperature: float = option(0.5, "how much better plans count more", gt=0)


_REPLAY = {
    "type": "sequence",
    "replay_buffer_size": 1_000_000,
    "unroll_len": 4,
    "stride": 1,
    "padding": "all",  # only first observations are encoded with gradients
}


@frozen(kw_only=True)
class TDMPC2Config(PolicyConfig):
    """TD-MPC2: plans in latent space, with Q values beyond the plan (Hansen et al. 2024)."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = (
        *PolicyConfig.fixed_by_spaces,
        *("action_low", "action_high", "action_dims"),
    )
    requires: ClassVar[Mapping[str, tuple[object, str]]] = {
        "on_policy": (False, "learns from a replay buffer; set it to False"),
        "multi_gpu": (False, "learns in one process; set it to False"),
        "nstep": (1, "has targets of one step; set it to 1"),
        "priority": (False, "draws sequences uniformly; set it to False"),
        "priority_IS_weight": (False, "draws sequences uniformly; set it to False"),
        "traj_len_inf": (False, "learns from pieces of episodes; set it to False"),
        "collect.n_episode": (None, "collects samples; use collect.n_sample"),
        "collect.unroll_len": (1, "has its sequences from other.replay_buffer; set it to 1"),
    }

    on_policy: bool = option(False, "False: trains from a replay buffer")
    discount_factor: float = option(
        0.99, "discount factor gamma; raise it if rewards are far in the future", ge=0, le=1
    )
    model: ComponentConfig = component(
        "model", default="tdmpc2", help="latent model, Q networks and policy"
    )
    action_low: tuple[float, ...] | None = action_low_option()
    action_high: tuple[float, ...] | None = action_high_option()
    action_dims: tuple[int, ...] | None = action_dims_option()
    learn: TDMPC2LearnConfig = section(TDMPC2LearnConfig)
    collect: TDMPC2CollectConfig = section(TDMPC2CollectConfig)
    other: OtherConfig = section(OtherConfig, replay_buffer=_REPLAY)

    build = builds("dicore_worlds.policies.tdmpc2:TDMPC2Policy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model and the range of actions from the spaces.

        Raises:
            ConfigError: actions are no bounded real numbers, or observations are no vector or
                image.
        """
        name, kind = self.type or "tdmpc2", type(spec.action).__name__
        expect_one_agent(name, spec)
        if kind != "Box":
            raise ConfigError(
                f"policy.type: '{name}' needs bounded real numbers as actions; this env has"
                f" {' '.join(str(spec.action).split())}",
                hint="use dreamer or gumbel_muzero for discrete actions, or another policy",
            )
        check_pixels(name, spec.observation)
        found = options_for(self.model, spec.observation)
        return {**found, **box_options(spec.action, algorithm=name)}

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        for path, problem in optimizer_problems(self.learn):
            yield f"learn.{path}", problem
        yield from replay_problems(self)
        collect, buffer = self.collect, self.other.replay_buffer
        if buffer.get("unroll_len") is None:
            yield "other.replay_buffer", "must be 'sequence', which makes sequences of steps"
        elif buffer.get("burn_in"):
            yield "other.replay_buffer.burn_in", "must be 0: all steps are learned from"
        if collect.min_std > collect.max_std:
            yield "collect.min_std", f"must be <= max_std = {collect.max_std}"
        if collect.num_elites > collect.num_samples + collect.num_policy_samples:
            yield "collect.num_elites", "must not exceed num_samples + num_policy_samples"
