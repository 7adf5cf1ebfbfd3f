"""Options of IMPALA."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dicore.config.schema import frozen, option, section
from dicore.config.sections import OtherConfig
from dicore_plugins.lazy import builds
from dicore_plugins.policies.actor_critic.config import (
    ActorCriticCollectConfig,
    ActorCriticLearnConfig,
    ActorCriticPolicyConfig,
    recent_replay,
)


@frozen(kw_only=True)
class IMPALALearnConfig(ActorCriticLearnConfig):
    """Options of learning."""

    batch_size: int | None = option(32, "sequences per gradient update", ge=1)
    update_per_collect: int | None = option(4, "gradient updates after each collect", ge=1)
    learning_rate: float = option(
        1e-3, "learning rate; lower it if training is unstable", gt=0, lt=float("inf")
    )
    entropy_weight: float = option(
        0.01, "weight of the entropy bonus; raise it if exploration ends too early", ge=0
    )
    vtrace_lambda: float = option(
        1.0, "lambda of V-trace; lower: less variance, more bias by the value", ge=0, le=1
    )
    rho_clip: float = option(
        1.0, "largest ratio of probabilities in the corrections of the value", gt=0
    )
    c_clip: float = option(
        1.0, "largest ratio by which a correction reaches back to earlier steps", gt=0
    )


@frozen(kw_only=True)
class IMPALACollectConfig(ActorCriticCollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        16, "sequences per collect; use a multiple of env.collector_env_num", ge=1
    )
    unroll_len: int = option(8, "steps of a sequence", ge=1, unit="env steps")


@frozen(kw_only=True)
class IMPALAOtherConfig(OtherConfig):
    """Options of replay."""

    replay_buffer: Any = recent_replay(64, "sequences", "keeps them fresh")


@frozen(kw_only=True)
class IMPALAConfig(ActorCriticPolicyConfig):
    """IMPALA: actor-critic from replayed sequences, corrected by V-trace (Espeholt et al. 2018)."""

    on_policy: bool = option(False, "False: trains from a replay buffer of recent sequences")
    learn: IMPALALearnConfig = section(IMPALALearnConfig)
    collect: IMPALACollectConfig = section(IMPALACollectConfig)
    other: IMPALAOtherConfig = section(IMPALAOtherConfig)

    build = builds("dicore_plugins.policies.impala.policy:IMPALAPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        name = self.type or "this policy"
        yield from self.replay_problems("sequences")
        if self.collect.n_episode is not None:
            yield "collect.n_episode", f"{name} collects sequences; use collect.n_sample"
        if self.traj_len_inf:
            yield "traj_len_inf", f"{name} learns from pieces of episodes; set it to False"
        if self.model is not None and self.model.get("value_norm"):
            yield (
                "model.value_norm",
                f"{name} learns values in units of the reward; set it to False",
            )
