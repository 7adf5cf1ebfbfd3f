"""Options of IMPALA."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dicore.config.schema import frozen, option, section
from dicore.config.sections import OtherConfig
from dicore_plugins.lazy import builds
from dicore_plugins.policies.actor_critic.base_config import (
    ActorCriticCollectConfig,
    ActorCriticLearnConfig,
    ActorCriticPolicyConfig,
    recent_replay,
)
from dicore_plugins.policies.required import IN_REPLAY, PIECES, Required


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
class IMPALAConfig(ActorCriticPolicyConfig):
    """IMPALA: actor-critic from replayed sequences, corrected by V-trace (Espeholt et al. 2018)."""

    requires: ClassVar[Required] = {
        "collect.n_episode": (None, "collects sequences; use collect.n_sample"),
        "model.value_norm": (False, "learns values in units of the reward; set it to False"),
        **IN_REPLAY,
        **PIECES,
    }

    on_policy: bool = option(False, "False: trains from a replay buffer of recent sequences")
    learn: IMPALALearnConfig = section(IMPALALearnConfig)
    collect: ActorCriticCollectConfig = section(
        ActorCriticCollectConfig,
        n_sample=option(16, "sequences per collect; use a multiple of env.collector_env_num", ge=1),
        unroll_len=option(8, "steps of a sequence", ge=1, unit="env steps"),
    )
    other: OtherConfig = section(
        OtherConfig, replay_buffer=recent_replay(64, "sequences", "keeps them fresh")
    )

    build = builds("dicore_plugins.policies.actor_critic.impala:IMPALAPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from self.replay_problems("sequences")
