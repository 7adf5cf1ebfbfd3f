"""Options of PPO from a replay buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dicore.config.schema import frozen, option, section
from dicore.config.sections import OtherConfig
from dicore_plugins.lazy import builds
from dicore_plugins.policies.actor_critic.base_config import ActorCriticPolicyConfig, recent_replay
from dicore_plugins.policies.actor_critic.ppo_config import ClippedLearnConfig, PPOCollectConfig
from dicore_plugins.policies.required import IN_REPLAY, SINGLE_STEPS, Required


@frozen(kw_only=True)
class PPOOffPolicyConfig(ActorCriticPolicyConfig):
    """PPO that draws minibatches of recent steps from a replay buffer (DI-engine)."""

    requires: ClassVar[Required] = {**IN_REPLAY, **SINGLE_STEPS}

    on_policy: bool = option(False, "False: trains from a replay buffer of recent steps")
    learn: ClippedLearnConfig = section(
        ClippedLearnConfig,
        batch_size=option(64, "samples per gradient update", ge=1),
        update_per_collect=40,
    )
    collect: PPOCollectConfig = section(PPOCollectConfig, n_sample=256)
    other: OtherConfig = section(
        OtherConfig, replay_buffer=recent_replay(1024, "steps", "keeps their advantages valid")
    )

    build = builds("dicore_plugins.policies.actor_critic.ppo_offpolicy:PPOOffPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from self.replay_problems("samples")
