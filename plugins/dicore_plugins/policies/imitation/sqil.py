"""SQIL: soft Q imitation learning (Reddy et al. 2020, arXiv:1905.11108).

Soft Q-learning from demonstrations with reward 1 and own steps with reward 0, whatever the
environment pays; batches have a fixed share of demonstrations (`other.replay_buffer.demo.share`).
"""

from __future__ import annotations

from typing import ClassVar

from dicore.config.sections import PolicyConfig
from dicore_plugins.policies.continuous.sac import SACPolicy
from dicore_plugins.policies.imitation.demonstrations import FromDemonstrations
from dicore_plugins.policies.imitation.sqil_config import SQILConfig, SQILSACConfig
from dicore_plugins.policies.value.sqn import SQNPolicy

__all__ = ["SQILPolicy", "SQILSACPolicy"]


class SQILPolicy(FromDemonstrations, SQNPolicy):
    """Soft Q-learning of two networks, for discrete actions."""

    config_class: ClassVar[type[PolicyConfig]] = SQILConfig
    _cfg: SQILConfig
    _demo_reward: ClassVar[float | None] = 1.0


class SQILSACPolicy(FromDemonstrations, SACPolicy):
    """Soft actor-critic, for bounded continuous actions."""

    config_class: ClassVar[type[PolicyConfig]] = SQILSACConfig
    _cfg: SQILSACConfig
    _demo_reward: ClassVar[float | None] = 1.0
