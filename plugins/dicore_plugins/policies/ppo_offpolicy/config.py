"""Options of PPO from a replay buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dicore.config.schema import frozen, option, section
from dicore.config.sections import OtherConfig
from dicore_plugins.lazy import builds
from dicore_plugins.policies.actor_critic.config import ActorCriticPolicyConfig, recent_replay
from dicore_plugins.policies.ppo.config import ClippedLearnConfig, PPOCollectConfig


@frozen(kw_only=True)
class PPOOffPolicyLearnConfig(ClippedLearnConfig):
    """Options of learning."""

    batch_size: int | None = option(64, "samples per gradient update", ge=1)
    update_per_collect: int | None = option(40, "gradient updates after each collect", ge=1)


@frozen(kw_only=True)
class PPOOffPolicyCollectConfig(PPOCollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        256, "samples per collect; use a multiple of env.collector_env_num", ge=1
    )


@frozen(kw_only=True)
class PPOOffPolicyOtherConfig(OtherConfig):
    """Options of replay."""

    replay_buffer: Any = recent_replay(1024, "steps", "keeps their advantages valid")


@frozen(kw_only=True)
class PPOOffPolicyConfig(ActorCriticPolicyConfig):
    """PPO that draws minibatches of recent steps from a replay buffer (DI-engine)."""

    on_policy: bool = option(False, "False: trains from a replay buffer of recent steps")
    learn: PPOOffPolicyLearnConfig = section(PPOOffPolicyLearnConfig)
    collect: PPOOffPolicyCollectConfig = section(PPOOffPolicyCollectConfig)
    other: PPOOffPolicyOtherConfig = section(PPOOffPolicyOtherConfig)

    build = builds("dicore_plugins.policies.ppo_offpolicy.policy:PPOOffPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from self.replay_problems("samples")
        if self.collect.unroll_len != 1:
            yield "collect.unroll_len", "ppo_offpolicy learns from single steps; set it to 1"
