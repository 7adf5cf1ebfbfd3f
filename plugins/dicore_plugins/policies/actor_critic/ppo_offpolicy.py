"""PPO from a replay buffer, as `ppo_offpolicy` of DI-engine (arXiv:1707.06347 for the loss).

A step keeps the log-probability, the value and the advantage of the time when it was collected; the
ratio of the clipped loss is to the policy that collected it.
"""

from __future__ import annotations

from typing import ClassVar

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore_plugins.policies.actor_critic.ppo import ClippedPolicy
from dicore_plugins.policies.actor_critic.ppo_offpolicy_config import PPOOffPolicyConfig
from dicore_plugins.policies.base import Results


class PPOOffPolicy(ClippedPolicy):
    """One update per batch of the replay buffer."""

    config_class: ClassVar[type[PolicyConfig]] = PPOOffPolicyConfig
    _cfg: PPOOffPolicyConfig

    def _updates(self, batch: Batch, **settings: float) -> list[Results]:
        result = self._update(batch, **settings)
        assert result is not None
        return [result]
