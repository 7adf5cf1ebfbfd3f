"""Agents after Digideep: policies that learn from batches of a sampler, one or several per env."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.agents.agent import AgentBase
    from dicore_plugins.agents.config import (
        AgentCollectConfig,
        AgentConfig,
        AgentLearnConfig,
        TeamConfig,
    )
    from dicore_plugins.agents.team import Team
    from dicore_plugins.agents.trajectories import TrajectoryMemory

__all__ = [
    "AgentBase",
    "AgentCollectConfig",
    "AgentConfig",
    "AgentLearnConfig",
    "Team",
    "TeamConfig",
    "TrajectoryMemory",
]

_HOMES = {
    ".agent": ("AgentBase",),
    ".config": ("AgentCollectConfig", "AgentConfig", "AgentLearnConfig", "TeamConfig"),
    ".team": ("Team",),
    ".trajectories": ("TrajectoryMemory",),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
