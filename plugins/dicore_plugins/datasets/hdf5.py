"""HDF5 files of columns: contiguous ones are memory-mapped, others are read.

The layout of D4RL (Fu et al. 2020, arXiv:2004.07219) has `observations actions rewards terminals
timeouts`, perhaps `next_observations`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dicore.data import tree_paths
from dicore.errors import MissingDependencyError, SchemaError
from dicore_plugins.buffers.memory import check_memory
from dicore_plugins.datasets.config import HDF5Config
from dicore_plugins.datasets.dataset import TransitionDataset
from dicore_plugins.datasets.files import SPACES, existing, fingerprint_of, mapped, replaced
from dicore_plugins.datasets.recording import Recording, Stored, recording_of
from dicore_plugins.datasets.spaces import space_from, space_text

__all__ = ["HDF5Dataset", "write_hdf5"]

_D4RL = {
    "obs": "observations", "action": "actions", "reward": "rewards", "terminated": "terminals",
    "truncated": "timeouts", "next_obs": "next_observations",
}  # fmt: skip


class HDF5Dataset(TransitionDataset):
    """Samples of an HDF5 file."""

    config_class: ClassVar[type[Any]] = HDF5Config

    def _read(self, path: str) -> tuple[Recording, str]:
        file, h5py, cfg = existing(path), _h5py(), self._cfg
        stored: dict[str, Stored] = {}
        try:
            with h5py.File(file, "r") as content:

                def add(name: str, item: Any) -> None:
                    if isinstance(item, h5py.Dataset) and item.shape:
                        stored[name] = _stored(file, item)

                content.visititems(add)
                texts = [content.attrs.get(name) for name in SPACES]
            spaces = [None if text is None else space_from(str(text)) for text in texts]
        except (OSError, ValueError, RuntimeError, KeyError) as error:  # h5py raises all of them
            raise SchemaError(
                f"{path}: cannot be read: {error}",
                hint="the file is cut off, or not an HDF5 file",
                context={"file": path},
            ) from error
        recording = recording_of(path, stored, cfg.columns, cfg.extra, (spaces[0], spaces[1]))
        return recording, fingerprint_of([file])


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise MissingDependencyError(
            "data sets in HDF5 need the package h5py", hint="pip install 'dicore-plugins[hdf5]'"
        ) from error
    return h5py


def _stored(path: Path, item: Any) -> Stored:
    """Describes a column; whether it is contiguous is what its offset tells."""
    offset = item.id.get_offset()
    load: Any = partial(_read_all, path, item.name, item.dtype.itemsize * math.prod(item.shape))
    if offset is not None and item.dtype.kind in "biuf" and not item.external:
        load = partial(mapped, path, item.dtype, item.shape, offset)
    return Stored(item.shape, item.dtype, load)


def _read_all(path: Path, name: str, size: int) -> Any:
    """Reads a column that is compressed or in chunks."""
    check_memory(size, size)
    with _h5py().File(path, "r") as content:
        return np.asarray(content[name][()])


def write_hdf5(path: Any, columns: Mapping[str, Any], *spaces: Any) -> None:
    """Writes columns to an HDF5 file in the layout of D4RL, atomically, contiguous.

    Args:
        path: The file; an existing one is replaced.
        columns: Arrays [N, ...] by name, which may be nested: obs, action, reward, terminated, ….
        *spaces: Observation and action space, if they are known; see `write_npz`.
    """
    h5py = _h5py()
    with replaced(Path(path)) as unfinished, h5py.File(unfinished, "w") as file:
        for name, leaf in tree_paths({_D4RL.get(k, k): v for k, v in columns.items()}).items():
            file.create_dataset(name.replace(".", "/"), data=np.asarray(leaf))
        for name, space in zip(SPACES, spaces, strict=False):
            if text := space_text(space):
                file.attrs[name] = text
