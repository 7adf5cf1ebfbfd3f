"""Policies: one module or folder per algorithm; importing the options needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.policies.base import (
        Actor,
        Policy,
        as_outputs,
        mode_attribute,
        single_env_forward,
    )
    from dicore_plugins.policies.dqn.config import (
        DQNCollectConfig,
        DQNConfig,
        DQNLearnConfig,
        DQNOtherConfig,
        EpsConfig,
    )
    from dicore_plugins.policies.dqn.policy import DQNPolicy
    from dicore_plugins.policies.random import RandomConfig, RandomPolicy
    from dicore_plugins.policies.rewards import with_reward_model

__all__ = [
    "Actor",
    "DQNCollectConfig",
    "DQNConfig",
    "DQNLearnConfig",
    "DQNOtherConfig",
    "DQNPolicy",
    "EpsConfig",
    "Policy",
    "RandomConfig",
    "RandomPolicy",
    "as_outputs",
    "mode_attribute",
    "single_env_forward",
    "with_reward_model",
]

_HOMES = {
    ".base": (
        "Actor",
        "Policy",
        "as_outputs",
        "mode_attribute",
        "single_env_forward",
    ),
    ".dqn.config": (
        "DQNCollectConfig",
        "DQNConfig",
        "DQNLearnConfig",
        "DQNOtherConfig",
        "EpsConfig",
    ),
    ".dqn.policy": ("DQNPolicy",),
    ".random": (
        "RandomConfig",
        "RandomPolicy",
    ),
    ".rewards": ("with_reward_model",),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
