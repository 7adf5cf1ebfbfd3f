"""Data sets: recorded transitions for offline training and for filling replay buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.datasets.collected import CollectedDataset
    from dicore_plugins.datasets.config import (
        AutoConfig,
        CollectedConfig,
        DatasetConfig,
        HDF5Config,
        MinariConfig,
        NpzConfig,
    )
    from dicore_plugins.datasets.dataset import TransitionDataset
    from dicore_plugins.datasets.filling import fill_buffer
    from dicore_plugins.datasets.hdf5 import HDF5Dataset, write_hdf5
    from dicore_plugins.datasets.minari_data import MinariDataset
    from dicore_plugins.datasets.npz import NpzDataset, write_npz
    from dicore_plugins.datasets.transitions import (
        episode_to_transitions,
        episode_to_transitions_filter,
    )

__all__ = [
    "AutoConfig",
    "CollectedConfig",
    "CollectedDataset",
    "DatasetConfig",
    "HDF5Config",
    "HDF5Dataset",
    "MinariConfig",
    "MinariDataset",
    "NpzConfig",
    "NpzDataset",
    "TransitionDataset",
    "episode_to_transitions",
    "episode_to_transitions_filter",
    "fill_buffer",
    "write_hdf5",
    "write_npz",
]

_HOMES = {
    ".collected": ("CollectedDataset",),
    ".config": (
        "AutoConfig",
        "CollectedConfig",
        "DatasetConfig",
        "HDF5Config",
        "MinariConfig",
        "NpzConfig",
    ),
    ".dataset": ("TransitionDataset",),
    ".filling": ("fill_buffer",),
    ".hdf5": ("HDF5Dataset", "write_hdf5"),
    ".minari_data": ("MinariDataset",),
    ".npz": ("NpzDataset", "write_npz"),
    ".transitions": ("episode_to_transitions", "episode_to_transitions_filter"),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
