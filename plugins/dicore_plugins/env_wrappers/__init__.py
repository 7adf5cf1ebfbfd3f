"""Env wrappers, configured in `env.env_wrapper`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.env_managers.adapt import from_gym
    from dicore_plugins.env_wrappers.frame_stack import LazyFrames, LazyFrameStack, StackedBox
    from dicore_plugins.env_wrappers.gym_adapter import GymAdapter
    from dicore_plugins.env_wrappers.lives import EpisodicLife, FireReset
    from dicore_plugins.env_wrappers.parallel_agents import ParallelAgents
    from dicore_plugins.env_wrappers.versus import Snapshot, Versus, save_snapshot
    from dicore_plugins.env_wrappers.wrappers import (
        DelayReward,
        DiscretizeAction,
        EpisodeReturn,
        HybridDictAction,
        MaxAndSkip,
        NoopReset,
        PrevActionReward,
        RewardInObs,
    )

__all__ = [
    "DelayReward",
    "DiscretizeAction",
    "EpisodeReturn",
    "EpisodicLife",
    "FireReset",
    "GymAdapter",
    "HybridDictAction",
    "LazyFrameStack",
    "LazyFrames",
    "MaxAndSkip",
    "NoopReset",
    "ParallelAgents",
    "PrevActionReward",
    "RewardInObs",
    "Snapshot",
    "StackedBox",
    "Versus",
    "from_gym",
    "save_snapshot",
]

_HOMES = {
    "dicore_plugins.env_managers.adapt": ("from_gym",),
    ".frame_stack": ("LazyFrameStack", "LazyFrames", "StackedBox"),
    ".gym_adapter": ("GymAdapter",),
    ".lives": ("EpisodicLife", "FireReset"),
    ".parallel_agents": ("ParallelAgents",),
    ".versus": ("Snapshot", "Versus", "save_snapshot"),
    ".wrappers": (
        "DelayReward",
        "DiscretizeAction",
        "EpisodeReturn",
        "HybridDictAction",
        "MaxAndSkip",
        "NoopReset",
        "PrevActionReward",
        "RewardInObs",
    ),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
