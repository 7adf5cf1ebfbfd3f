"""HDF5 files of columns: contiguous ones are memory-mapped, others are read.

The layout of D4RL (Fu et al. 2020, arXiv:2004.07219) has `observations actions rewards terminals
timeouts`, perhaps `next_observations`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dicore.data import Tree, tree_paths
from dicore.errors import MissingDependencyError, SchemaError
from dicore_plugins.datasets.config import HDF5Config
from dicore_plugins.datasets.dataset import TransitionDataset
from dicore_plugins.datasets.files import (
    SPACES,
    check_fits,
    existing,
    fingerprint_of,
    mapped,
    reading,
    replaced,
)
from dicore_plugins.datasets.recording import Recording, Stored, recording_of
from dicore_plugins.datasets.spaces import space_from, space_text

__all__ = ["HDF5Dataset", "check_contained", "write_hdf5"]

_D4RL = {
    "obs": "observations", "action": "actions", "reward": "rewards", "terminated": "terminals",
    "truncated": "timeouts", "next_obs": "next_observations",
}  # fmt: skip

_DEEPEST = 32
"""Groups around a column, each in the next."""


class HDF5Dataset(TransitionDataset):
    """Samples of an HDF5 file."""

    config_class: ClassVar[type[HDF5Config]] = HDF5Config

    def _read(self, path: str) -> tuple[Recording, str]:
        file, h5py, cfg = existing(path), _h5py(), self._cfg
        stored: dict[str, Stored] = {}
        with reading(path, "the file is cut off, or not an HDF5 file"):
            check_contained([file])
            with h5py.File(file, "r") as content:

                def add(name: str, item: Any) -> None:
                    if isinstance(item, h5py.Dataset) and item.shape:
                        stored[name] = _stored(file, item)

                content.visititems(add)
                texts = [content.attrs.get(name) for name in SPACES]
            spaces = [None if text is None else space_from(str(text)) for text in texts]
            parts = [each.load for each in stored.values()]
            check_fits(path, sum(load.args[2] for load in parts if load.func is _read_all))
            recording = recording_of(path, stored, cfg.columns, cfg.extra, (spaces[0], spaces[1]))
        return recording, fingerprint_of([file])


def check_contained(files: Iterable[Path]) -> int:
    """Raises an error if HDF5 files take data from elsewhere: any file of this machine.

    Returns:
        The bytes that their columns say they have.

    Raises:
        SchemaError: one has links, external storage, virtual columns or very many nested groups.
    """
    h5py, sizes = _h5py(), [0]
    for file in files:
        found: list[str] = []

        def note(name: str, link: Any, found: list[str] = found) -> bool | None:
            if isinstance(link, h5py.SoftLink | h5py.ExternalLink):
                found.append(f"'{name}' is a link")
            elif name.count("/") > _DEEPEST:  # the time to visit a group grows with its depth
                found.append(f"'{name}' lies too deep")
            return True if found else None  # True ends the visit

        def visit(name: str, item: Any, found: list[str] = found) -> None:
            if isinstance(item, h5py.Dataset):
                sizes.append(_size(item))
                if item.external or item.is_virtual:
                    found.append(f"'{name}' is stored elsewhere")

        with h5py.File(file, "r") as content:
            if not content.visititems_links(note):
                content.visititems(visit)
        if found:
            raise SchemaError(
                f"{file}: {found[0]}; its columns must lie in the file, in few groups",
                hint="copy them into one file: h5repack, or a new h5py.File",
                context={"file": str(file)},
            )
    return sum(sizes)


def _size(item: Any) -> int:
    """Returns the bytes that a column says it has; 0 of an empty one."""
    return int(item.dtype.itemsize) * math.prod(item.shape or (0,))


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
    load: Any = partial(_read_all, path, item.name, _size(item))
    if offset is not None and item.dtype.kind in "biuf" and not item.external:
        load = partial(mapped, path, item.dtype, item.shape, offset)
    return Stored(item.shape, item.dtype, load)


def _read_all(path: Path, name: str, size: int) -> Any:
    """Reads a column that is compressed or in chunks."""
    with _h5py().File(path, "r") as content:
        return np.asarray(content[name][()])


def write_hdf5(path: str | Path, columns: Mapping[str, Tree], *spaces: Any) -> None:
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
