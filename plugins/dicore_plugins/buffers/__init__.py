"""Replay buffers: they store collected samples and return training batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.buffers.naive.buffer import NaiveBuffer, NaiveReplayBuffer
    from dicore_plugins.buffers.naive.config import NaiveConfig
    from dicore_plugins.buffers.ring import Ring

__all__ = [
    "NaiveBuffer",
    "NaiveConfig",
    "NaiveReplayBuffer",
    "Ring",
]

_HOMES = {
    ".naive.buffer": (
        "NaiveBuffer",
        "NaiveReplayBuffer",
    ),
    ".naive.config": ("NaiveConfig",),
    ".ring": ("Ring",),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
