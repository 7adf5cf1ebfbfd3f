"""Where a ring keeps its columns: the contract, and memory-mapped files.

The other storages are in `device`; a ring in plain memory needs neither. Shapes: C the capacity, B
samples drawn, `...` one sample.
"""

from __future__ import annotations

import math
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from dicore.data import State, Tree
from dicore.errors import ReplayCapacityError, ReplayError, UsageError
from dicore.run.atomic import recover_one, replace_folder
from dicore.run.checkpoint_store import read_state, write_state
from dicore.run.folder import RunLock
from dicore_plugins.buffers import memory
from dicore_plugins.buffers.memory import check_bytes, verdict
from dicore_registry.explain import brief

__all__ = ["FileStorage", "Storage", "is_kept", "read_kept", "storage_of"]

Array = npt.NDArray[Any]

_RESIDENT = 64 << 20
"""Bytes of mapped files that stay in memory."""
_STATE = "state"
_UNFINISHED = ".tmp-samples-"
"""Beginning of the names of folders of files to keep, until they are complete."""


class Storage(Protocol):
    """Allocates the columns of a ring and the memory of recycled batches.

    A column has the part of an array [C, ...] that a ring uses: `shape`, `dtype`, `take`, reading
    a slice, and writing to a slice or to slots.
    """

    takes_tensors: ClassVar[bool]
    """Whether columns take pushed tensors as they are; otherwise they get arrays."""
    turns: ClassVar[int]
    """Number of batches that alternate in recycled memory."""

    def check(self, needed: int, capacity: int) -> None:
        """Raises `ReplayCapacityError` if `needed` bytes of C samples are not available."""

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any:
        """Returns a new column [C, ...]."""

    def output(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any:
        """Returns memory for batches [B, ...]."""

    def turn(self) -> None:
        """Waits until the oldest batch in recycled memory is no longer read."""

    def clear(self) -> None:
        """Frees all columns. It may have `check_valid() -> (bool, why)` beside it."""

    def close(self, state: State | None = None) -> None:
        """Frees everything; `state` is that of the buffer, for files that are kept."""


def storage_of(
    name: str, *, device: str = "cuda", folder: str | Path | None = None, keep: bool = False
) -> Storage:
    """Returns the storage of a name, `pinned`, `cuda` or `mmap`; see the options of a buffer.

    Raises:
        UsageError: there is no such device, or no folder for files that are kept.
    """
    if name == "mmap":
        return FileStorage(folder, keep=keep)
    from dicore_plugins.buffers.device import DeviceStorage, PinnedStorage

    kinds: dict[str, Callable[[str], Storage]] = {"cuda": DeviceStorage, "pinned": PinnedStorage}
    return kinds[name](device)


class FileStorage:
    """Columns in memory-mapped files, of which only a part stays in memory.

    Large files are read row by row, since a page that is read through a mapping may bring 2 MiB of
    others with it. The files have no names, so nothing is left of them after `close` or a crash.
    Files to keep are in a folder that gets its name only when the buffer is closed, with the state
    of the buffer; what a crash left of such folders is removed by the next buffer.

    Args:
        folder: Where the files are; None: the system's folder for temporary files.
        keep: Leave them in `folder`/samples.

    Attributes:
        large: Whether the files are larger than what stays in memory.
    """

    takes_tensors: ClassVar[bool] = False
    turns: ClassVar[int] = 2

    def __init__(self, folder: str | Path | None = None, *, keep: bool = False) -> None:
        if keep and folder is None:
            raise UsageError("storage_keep needs storage_folder", hint="name a folder for the data")
        self.folder = Path(tempfile.gettempdir() if folder is None else folder)
        self._target = self.folder / "samples" if keep else None
        if self._target is not None and self._target.exists() and not is_kept(self._target):
            raise UsageError(
                f"{self._target} is not data that a buffer has kept",
                hint="choose another storage_folder",
            )
        self.large = False
        self._columns: list[MappedColumn] = []
        self._unfinished: Path | None = None
        self._lock: RunLock | None = None
        self._written = 0

    def check(self, needed: int, capacity: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.folder).free
        check_bytes(needed, capacity, free, f"in {self.folder}")

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> MappedColumn:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._target is None:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                column = MappedColumn(self, file, shape, dtype, "")
        else:
            if self._unfinished is None:
                memory.remove_abandoned(self.folder, _UNFINISHED)
                self._unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.folder))
                self._lock = RunLock(self._unfinished)
            name = f"{len(self._columns)}.npy"
            with (self._unfinished / name).open("w+b") as file:
                column = MappedColumn(self, file, shape, dtype, name)
        self._columns.append(column)
        self.large = sum(each.nbytes for each in self._columns) > _RESIDENT
        return column

    def output(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        return np.empty(shape, dtype)

    def turn(self) -> None: ...

    def touched(self, size: int) -> None:
        """Counts bytes in mapped memory; when they are too many, all of it is released."""
        self._written += size
        if self._written > _RESIDENT and self.large:
            self._written = 0
            for column in self._columns:
                column.release()

    def clear(self) -> None:
        self._columns.clear()
        self._written, self.large = 0, False
        self._unlock()
        if self._unfinished is not None:
            shutil.rmtree(self._unfinished, ignore_errors=True)
            self._unfinished = None

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def check_valid(self) -> tuple[bool, str]:
        """Returns whether each file has the length of its column, or which has not."""
        more = [(each.name or "a file", each.surplus()) for each in self._columns]
        return verdict((not n, f"{name}: {n} bytes more than its column") for name, n in more)

    def close(self, state: State | None = None) -> None:
        if self._target is not None and self._unfinished is not None and state is not None:
            by_address = {each.address: each for each in self._columns}
            for column in self._columns:
                column.flush()
            write_state(self._unfinished / _STATE, _by_name(state, by_address))
            recover_one(self._target)
            self._unlock()
            (self._unfinished / ".lock").unlink(missing_ok=True)
            replace_folder(self._unfinished, self._target)
            self._unfinished = None
        self.clear()


class MappedColumn:
    """A column of a ring in a file, mapped into memory; files with a name are of type npy."""

    def __init__(
        self,
        storage: FileStorage,
        file: Any,
        shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        name: str,
    ) -> None:
        self.name = name
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self._storage = storage
        count = math.prod(self.shape)
        self.nbytes = count * self.dtype.itemsize
        self._row = self.nbytes // max(1, self.shape[0])
        if name:
            descr = np.lib.format.dtype_to_descr(self.dtype)
            header = {"descr": descr, "fortran_order": False, "shape": self.shape}
            np.lib.format.write_array_header_1_0(file, header)
            file.flush()
        start = file.tell()
        length = max(1, start + self.nbytes)
        _reserve(file, length, storage.folder)
        self._map = mmap.mmap(file.fileno(), length)
        self._start = start
        self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)
        self.array: Array = np.frombuffer(self._map, self.dtype, count, start).reshape(self.shape)
        self.address = self.array.ctypes.data

    def __len__(self) -> int:
        return self.shape[0]

    def __setitem__(self, rows: Tree, values: Tree) -> None:
        self.array[rows] = values
        self._storage.touched(len(values) * self._row if np.ndim(values) else self._row)

    def __getitem__(self, rows: slice) -> Array:
        found: Array = self.array[rows]
        self._storage.touched(found.nbytes)
        return found

    def take(self, rows: Tree, axis: int, out: Array | None, mode: Any) -> Array:
        """Returns samples [B, ...]; as `ndarray.take`."""
        if not self._storage.large or not hasattr(os, "preadv"):
            taken: Array = self.array.take(rows, axis, out, mode)
            return taken
        if out is None:
            out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        if not out.nbytes:
            return out
        view, size = out.data.cast("B"), self._row
        for start, row in zip(range(0, len(rows) * size, size), rows.tolist(), strict=True):
            os.preadv(self._file, (view[start : start + size],), self._start + row * size)
        return out

    def release(self) -> None:
        """Lets the system take back the memory; the data stays in the file."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def surplus(self) -> int:
        """Returns how many bytes the file has more than the column; less than 0: too few."""
        length: int = max(1, self._start + self.nbytes)
        return os.fstat(self._file).st_size - length

    def flush(self) -> None:
        """Writes everything to the disk."""
        self._map.flush()


def is_kept(folder: Path) -> bool:
    """Returns whether a folder is data that a buffer has kept."""
    return (folder / _STATE).is_dir()


def read_kept(folder: Path) -> Any:
    """Returns the state that a buffer has kept; its columns are read from the files when needed.

    Raises:
        ReplayError: a file is missing or damaged.
        CheckpointError: the rest of the state is.
    """

    def opened(value: Tree) -> Any:
        if isinstance(value, dict) and value.keys() == {"file", "rows"}:
            file = folder / Path(str(value["file"])).name  # of this folder, whatever it says
            if file.is_symlink() or not file.is_file():
                raise ReplayError(f"{file}: not a file of a buffer")
            try:
                return np.lib.format.open_memmap(file, mode="r")[: value["rows"]]
            except Exception as error:
                raise ReplayError(f"{file}: {brief(error)}") from error
        if isinstance(value, dict):
            return {key: opened(each) for key, each in value.items()}
        return [opened(each) for each in value] if isinstance(value, list) else value

    return opened(read_state(folder / _STATE))


def _by_name(value: Tree, columns: Mapping[int, MappedColumn]) -> Any:
    """Returns a state in which the names of files stand for what is in them."""
    if isinstance(value, np.ndarray):
        column = columns.get(value.ctypes.data) if value.nbytes else None
        return value if column is None else {"file": column.name, "rows": len(value)}
    if isinstance(value, Mapping):
        return {key: _by_name(each, columns) for key, each in value.items()}
    return [_by_name(each, columns) for each in value] if isinstance(value, list) else value


def _reserve(file: Any, length: int, folder: Path) -> None:
    """Makes a file `length` bytes long, whose blocks are on the disk: a full one is found now."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, length)
        else:
            file.truncate(length)
    except OSError as error:
        raise ReplayCapacityError(
            f"{length / 2**30:.1f} GiB cannot be allocated in {folder}: {error.strerror}",
            hint="free disk space, choose another storage_folder, or reduce replay_buffer_size",
        ) from error
