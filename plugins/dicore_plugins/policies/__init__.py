"""Policies: one module or folder per algorithm; importing the options needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.policies.base import Policy, single_env_forward
    from dicore_plugins.policies.dqn.config import DQNConfig, DQNLearnConfig
    from dicore_plugins.policies.dqn.policy import DQNPolicy
    from dicore_plugins.policies.random import RandomPolicy

__all__ = [
    "DQNConfig",
    "DQNLearnConfig",
    "DQNPolicy",
    "Policy",
    "RandomPolicy",
    "single_env_forward",
]

__getattr__ = lazy(
    __name__,
    {
        "DQNConfig": ".dqn.config",
        "DQNLearnConfig": ".dqn.config",
        "DQNPolicy": ".dqn.policy",
        "Policy": ".base",
        "RandomPolicy": ".random",
        "single_env_forward": ".base",
    },
)
