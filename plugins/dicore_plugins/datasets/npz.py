"""NumPy archives: one array per column, memory-mapped if they are not compressed."""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dicore.data import Tree, tree_paths
from dicore.data.tree import Array
from dicore_plugins.datasets.config import NpzConfig
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

__all__ = ["NpzDataset", "write_npz"]

_MOST_COLUMNS = 10_000
_LOCAL = struct.Struct("<26x2H")
"""Lengths of name and extra field in the header of a member (PKWARE APPNOTE 4.3.7)."""


class NpzDataset(TransitionDataset):
    """Samples of an `.npz` file."""

    config_class: ClassVar[type[NpzConfig]] = NpzConfig

    def _read(self, path: str) -> tuple[Recording, str]:
        file, cfg = existing(path), self._cfg
        with reading(path, "the file is cut off, or not what np.savez writes"):
            stored = columns_of(file)
            spaces = [_space(stored.pop(name, None)) for name in SPACES]
            recording = recording_of(path, stored, cfg.columns, cfg.extra, (spaces[0], spaces[1]))
        return recording, fingerprint_of([file])


def columns_of(path: Path) -> dict[str, Stored]:
    """Returns the arrays of an archive by name."""
    stored: dict[str, Stored] = {}
    in_memory = 0
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        members = [each for each in archive.infolist() if each.filename.endswith(".npy")]
        if len(members) > _MOST_COLUMNS:
            raise ValueError(f"{len(members)} columns; expected at most {_MOST_COLUMNS}")
        for member in members:
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as content:
                shape, fortran, dtype = _header(content)
                length = content.tell()
            if dtype.hasobject:
                raise ValueError(f"{name} contains Python objects")
            size = math.prod(shape) * dtype.itemsize
            if min(shape, default=0) < 0 or size != member.file_size - length:
                raise ValueError(f"{name} has {member.file_size - length} bytes, expected {size}")
            load: Any = partial(_loaded, path, member.filename)
            if member.compress_type == zipfile.ZIP_STORED and not fortran:
                file.seek(member.header_offset)
                sizes = _LOCAL.unpack(file.read(_LOCAL.size))
                start = member.header_offset + _LOCAL.size + sum(sizes) + length
                load = partial(mapped, path, dtype, shape, start)
            else:
                in_memory += size
            stored[name] = Stored(shape, dtype, load)
    check_fits(path, in_memory)
    return stored


def _header(content: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Reads shape, order and dtype of an `.npy` file."""
    version = np.lib.format.read_magic(content)
    read = np.lib.format.read_array_header_1_0
    if version != (1, 0):
        read = np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(content)
    return shape, fortran and len(shape) > 1, dtype


def _loaded(path: Path, name: str) -> Array:
    with zipfile.ZipFile(path) as archive, archive.open(name) as content:
        array: Array = np.lib.format.read_array(content, allow_pickle=False)
    return np.asarray(array, order="C")


def _space(stored: Stored | None) -> Any:
    return None if stored is None else space_from(str(stored.load().item()))


def write_npz(path: str | Path, columns: Mapping[str, Tree], *spaces: Any) -> None:
    """Writes columns to an `.npz` file, atomically, so that they can be memory-mapped.

    Args:
        path: The file; an existing one is replaced.
        columns: Arrays [N, ...] by name, which may be nested.
        *spaces: Observation and action space, if they are known; other kinds than Box, Discrete,
            MultiDiscrete, MultiBinary, Dict and Tuple are left out.
    """
    arrays = {name.replace(".", "/"): leaf for name, leaf in tree_paths(dict(columns)).items()}
    texts = {name: space_text(space) for name, space in zip(SPACES, spaces, strict=False)}
    arrays |= {name: np.array(text) for name, text in texts.items() if text}
    with replaced(Path(path)) as unfinished, zipfile.ZipFile(unfinished, "w") as archive:
        for name, array in arrays.items():
            with archive.open(_aligned(f"{name}.npy", archive), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array, order="C"), allow_pickle=False)


def _aligned(name: str, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """Returns a member whose content begins at a multiple of 64, by a longer extra field."""
    member = zipfile.ZipInfo(name)
    zip64 = 20
    start = archive.fp.tell() + _LOCAL.size + len(name.encode()) + zip64 + 4  # type: ignore[union-attr]
    member.extra = struct.pack("<HH", 0xD1C0, -start % 64) + bytes(-start % 64)
    return member
