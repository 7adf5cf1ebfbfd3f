"""Replay buffers: they store collected samples and return training batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.buffers.advanced.buffer import AdvancedBuffer, AdvancedReplayBuffer
    from dicore_plugins.buffers.advanced.config import AdvancedConfig
    from dicore_plugins.buffers.naive.buffer import NaiveBuffer, NaiveReplayBuffer
    from dicore_plugins.buffers.naive.config import NaiveConfig
    from dicore_plugins.buffers.priority_tree import PriorityTree
    from dicore_plugins.buffers.ring import Ring

__all__ = [
    "AdvancedBuffer",
    "AdvancedConfig",
    "AdvancedReplayBuffer",
    "NaiveBuffer",
    "NaiveConfig",
    "NaiveReplayBuffer",
    "PriorityTree",
    "Ring",
]

_HOMES = {
    ".advanced.buffer": (
        "AdvancedBuffer",
        "AdvancedReplayBuffer",
    ),
    ".advanced.config": ("AdvancedConfig",),
    ".naive.buffer": (
        "NaiveBuffer",
        "NaiveReplayBuffer",
    ),
    ".naive.config": ("NaiveConfig",),
    ".priority_tree": ("PriorityTree",),
    ".ring": ("Ring",),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
