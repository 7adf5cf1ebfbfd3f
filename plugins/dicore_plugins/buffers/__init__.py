"""Replay buffers: they store collected samples and return training batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.buffers.advanced.buffer import AdvancedBuffer, AdvancedReplayBuffer
    from dicore_plugins.buffers.advanced.config import AdvancedConfig
    from dicore_plugins.buffers.deque.buffer import Buffer, DequeBuffer
    from dicore_plugins.buffers.deque.config import DequeConfig
    from dicore_plugins.buffers.deque.middleware import (
        clone_object,
        group_sample,
        padding,
        sample_range_view,
        staleness_check,
        use_time_check,
    )
    from dicore_plugins.buffers.deque.priority import PriorityExperienceReplay
    from dicore_plugins.buffers.deque.replay import DequeReplayBuffer
    from dicore_plugins.buffers.deque.store import BufferedData
    from dicore_plugins.buffers.device import DeviceStorage, PinnedStorage
    from dicore_plugins.buffers.elastic.buffer import ElasticReplayBuffer
    from dicore_plugins.buffers.elastic.config import ElasticConfig
    from dicore_plugins.buffers.episode.buffer import EpisodeBuffer, EpisodeReplayBuffer
    from dicore_plugins.buffers.episode.config import EpisodeConfig
    from dicore_plugins.buffers.file.buffer import FileBuffer, FileReplayBuffer, write_body
    from dicore_plugins.buffers.file.config import FileConfig
    from dicore_plugins.buffers.group import BufferGroup
    from dicore_plugins.buffers.naive.buffer import NaiveBuffer, NaiveReplayBuffer
    from dicore_plugins.buffers.naive.config import NaiveConfig
    from dicore_plugins.buffers.priority_tree import PriorityTree
    from dicore_plugins.buffers.ring import Ring
    from dicore_plugins.buffers.sequence.buffer import SequenceBuffer, SequenceReplayBuffer
    from dicore_plugins.buffers.sequence.config import SequenceConfig
    from dicore_plugins.buffers.storage import (
        FileStorage,
        Storage,
        storage_of,
    )

__all__ = [
    "AdvancedBuffer",
    "AdvancedConfig",
    "AdvancedReplayBuffer",
    "Buffer",
    "BufferGroup",
    "BufferedData",
    "DequeBuffer",
    "DequeConfig",
    "DequeReplayBuffer",
    "DeviceStorage",
    "ElasticConfig",
    "ElasticReplayBuffer",
    "EpisodeBuffer",
    "EpisodeConfig",
    "EpisodeReplayBuffer",
    "FileBuffer",
    "FileConfig",
    "FileReplayBuffer",
    "FileStorage",
    "NaiveBuffer",
    "NaiveConfig",
    "NaiveReplayBuffer",
    "PinnedStorage",
    "PriorityExperienceReplay",
    "PriorityTree",
    "Ring",
    "SequenceBuffer",
    "SequenceConfig",
    "SequenceReplayBuffer",
    "Storage",
    "clone_object",
    "group_sample",
    "padding",
    "sample_range_view",
    "staleness_check",
    "storage_of",
    "use_time_check",
    "write_body",
]

_HOMES = {
    ".advanced.buffer": (
        "AdvancedBuffer",
        "AdvancedReplayBuffer",
    ),
    ".advanced.config": ("AdvancedConfig",),
    ".deque.buffer": (
        "Buffer",
        "DequeBuffer",
    ),
    ".deque.config": ("DequeConfig",),
    ".deque.middleware": (
        "clone_object",
        "group_sample",
        "padding",
        "sample_range_view",
        "staleness_check",
        "use_time_check",
    ),
    ".deque.priority": ("PriorityExperienceReplay",),
    ".deque.replay": ("DequeReplayBuffer",),
    ".deque.store": ("BufferedData",),
    ".device": ("DeviceStorage", "PinnedStorage"),
    ".episode.buffer": (
        "EpisodeBuffer",
        "EpisodeReplayBuffer",
    ),
    ".episode.config": ("EpisodeConfig",),
    ".file.buffer": (
        "FileBuffer",
        "FileReplayBuffer",
        "write_body",
    ),
    ".file.config": ("FileConfig",),
    ".elastic.buffer": ("ElasticReplayBuffer",),
    ".elastic.config": ("ElasticConfig",),
    ".group": ("BufferGroup",),
    ".naive.buffer": (
        "NaiveBuffer",
        "NaiveReplayBuffer",
    ),
    ".naive.config": ("NaiveConfig",),
    ".priority_tree": ("PriorityTree",),
    ".ring": ("Ring",),
    ".sequence.buffer": (
        "SequenceBuffer",
        "SequenceReplayBuffer",
    ),
    ".sequence.config": ("SequenceConfig",),
    ".storage": (
        "FileStorage",
        "Storage",
        "storage_of",
    ),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
