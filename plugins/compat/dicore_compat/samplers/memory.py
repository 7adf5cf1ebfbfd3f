"""The memory of trajectories: a ring of chunks, in memory or on disk, read by worker and entry.

Shapes: B workers, T steps of a chunk, K chunks, n entries; `...` one item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dicore.data import Batch, State, StateDict, Tree
from dicore.errors import ReplayUnderflowError, SchemaError, UsageError
from dicore_compat.samplers.trajectory import blank
from dicore_plugins.buffers.memory import check_kind, check_range
from dicore_plugins.buffers.ring import Ring

__all__ = ["Memory", "MemoryBuffer", "MemoryColumn"]

Array = npt.NDArray[Any]


class Memory:
    """Keeps the newest K chunks of trajectories; when it is full, a new chunk replaces the oldest.

    A chunk has T + `overrun` entries. The last ones are half steps, which the first entries of the
    next chunk replace, so that n = kT + `overrun` entries of k chunks are stored without a gap.

    Args:
        chunk_sample_len: T.
        buffer_chunk_len: K.
        overrun: Number of half steps.
        folder: Keep the chunks in a file there, of which only a part is in memory; None: in memory.
    """

    def __init__(
        self,
        chunk_sample_len: int,
        buffer_chunk_len: int,
        overrun: int = 1,
        *,
        folder: Any = None,
    ) -> None:
        for name, value, least in (
            ("chunk_sample_len", chunk_sample_len, 1),
            ("buffer_chunk_len", buffer_chunk_len, 1),
            ("overrun", overrun, 0),
        ):
            if not isinstance(value, int) or value < least:
                raise UsageError(f"{name} must be an int >= {least}, got {value!r}")
        self._steps, self._chunks, self._overrun = chunk_sample_len, buffer_chunk_len, overrun
        self._folder = folder
        self.clear_buffer()

    def clear_buffer(self) -> None:
        """Drops all chunks, their keys and the number of workers."""
        self._ring: Ring | None = None
        self._half: dict[str, Array] = {}

    # ---- writing

    def store(self, chunk: Mapping[str, object]) -> None:
        """Stores a chunk.

        A key that earlier chunks did not have is NaN (or the least integer) in them; so is one that
        this chunk does not have, here.

        Args:
            chunk: Arrays [B, T + overrun, ...] by key; doubles become float32.

        Raises:
            SchemaError: a column has other numbers of workers or entries, or another dtype or item
                shape than before, or numbers too large for float32; nothing is stored.
        """
        columns = self._checked(chunk)
        workers = len(next(iter(columns.values())))
        if self._ring is None or columns.keys() - self._half.keys():
            self._widen(columns)
        assert self._ring is not None
        for key, known in self._half.items():
            if key not in columns:
                shape = (workers, self._steps + self._overrun, *known.shape[2:])
                columns[key] = np.full(shape, blank(known.dtype), known.dtype)
        rows = {key: columns[key][:, : self._steps] for key in self._half}
        self._ring.push(Batch({key: _by_step(each) for key, each in rows.items()}))
        self._half = {key: columns[key][:, self._steps :].copy() for key in self._half}

    def _checked(self, chunk: Mapping[str, object]) -> dict[str, Array]:
        """Returns the columns as arrays."""
        if not chunk:
            raise SchemaError("a chunk needs at least one key")
        length = self._steps + self._overrun
        columns = {key: np.asarray(each) for key, each in chunk.items()}
        first = next(iter(columns))
        workers = self.get_num_batches() or max(1, (columns[first].shape or (1,))[0])
        for key, each in columns.items():
            if each.shape[:2] != (workers, length):
                raise SchemaError(
                    f"'{key}': expected [{workers} workers, {length} entries, ...], got"
                    f" {[*each.shape]}",
                    hint=f"a chunk has chunk_sample_len + overrun = {length} entries",
                )
            if each.dtype.kind not in "biuf":
                raise SchemaError(f"'{key}' contains {each.dtype}; expected numbers")
            if each.dtype == np.float64:
                check_range([key], [each])
                columns[key] = each.astype(np.float32)
            known = self._half.get(key)
            found = columns[key].dtype, each.shape[2:]
            if known is not None and found != (known.dtype, known.shape[2:]):
                raise SchemaError(
                    f"'{key}': expected {known.dtype}{[*known.shape[2:]]} as stored, got"
                    f" {each.dtype}{[*each.shape[2:]]}"
                )
        return columns

    def _widen(self, columns: Mapping[str, Array]) -> None:
        """Makes a ring with further keys, and moves what is stored to it."""
        stored: Any = {} if self._ring is None else self.get_buffer()
        workers = len(next(iter(columns.values())))
        ring = self._new_ring(workers)
        half = {
            key: np.full((workers, self._overrun, *each.shape[2:]), blank(each.dtype), each.dtype)
            for key, each in columns.items()
        }
        new = {key: each for key, each in half.items() if key not in self._half}
        for start in range(0, self._count(), self._steps):
            rows = {key: stored[key][:, start : start + self._steps] for key in self._half}
            size = (workers, self._steps)
            for key, each in new.items():
                rows[key] = np.full((*size, *each.shape[2:]), blank(each.dtype), each.dtype)
            ring.push(Batch({key: _by_step(each) for key, each in rows.items()}))
        self._ring, self._half = ring, {**self._half, **new}

    def _new_ring(self, workers: int) -> Ring:
        """Returns an empty ring of rows, one for each worker and step."""
        capacity = self._chunks * self._steps * workers
        if self._folder is None:
            return Ring(capacity)
        from dicore_plugins.buffers.storage import FileStorage

        return Ring(capacity, storage=FileStorage(self._folder))

    # ---- reading

    def _count(self) -> int:
        """Number of whole steps."""
        return 0 if self._ring is None else self._ring.count // (self.get_num_batches() or 1)

    @property
    def length(self) -> int:
        """Number of entries, n."""
        return 0 if self._ring is None else self._count() + self._overrun

    @property
    def full(self) -> bool:
        """Whether the next chunk replaces the oldest one."""
        return self._count() == self._chunks * self._steps

    def get_chunk_sample_num(self) -> int:
        """Returns T."""
        return self._steps

    def get_num_batches(self) -> int | None:
        """Returns B; None before the first chunk."""
        return len(next(iter(self._half.values()))) if self._half else None

    def get_last_trans_index(self) -> int:
        """Returns the number of entries, n, with the half steps."""
        return self.length

    def get_overrun(self) -> int:
        """Returns the number of half steps at the end of a chunk."""
        return self._overrun

    def get_buffer_keys(self) -> list[str]:
        """Returns the keys."""
        return list(self._half)

    def get_key_shape(self, key: str) -> tuple[int, ...]:
        """Returns the shape of one item of a key.

        Raises:
            SchemaError: there is no such key.
        """
        return self.get_buffer()[key].shape[2:]

    def get_buffer(self) -> MemoryBuffer:
        """Returns all entries by key, oldest first; they are read when they are indexed.

        Raises:
            ReplayUnderflowError: no chunk was stored.
        """
        if self._ring is None:
            raise ReplayUnderflowError("the memory is empty", hint="store a chunk first")
        return MemoryBuffer(self._ring, self._half, self._count())

    # ---- state

    def state_dict(self) -> StateDict:
        """Returns the chunks."""
        ring = None if self._ring is None else self._ring.state_dict()
        return {"ring": ring, "half": dict(self._half)}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned.

        Raises:
            ReplayCapacityError: the chunks do not fit; nothing is changed.
            UsageError: it is the state of something else, or of other half steps.
        """
        for key in ("ring", "half"):
            check_kind(state, key, "chunks of trajectories")
        half = {key: np.asarray(each) for key, each in state["half"].items()}
        if state["ring"] is None or not half:
            self.clear_buffer()
            return
        overrun = next(iter(half.values())).shape[1]
        if overrun != self._overrun:
            raise UsageError(f"the state has overrun={overrun}, this memory {self._overrun}")
        workers = len(next(iter(half.values())))
        ring = self._new_ring(workers)
        ring.load_state_dict(state["ring"])
        self._ring, self._half = ring, half


class MemoryBuffer(Mapping[str, "MemoryColumn"]):
    """The entries of a memory by key; see `MemoryColumn`."""

    def __init__(self, ring: Ring, half: Mapping[str, Array], count: int) -> None:
        self._ring = ring
        self._half = half
        self._count = count

    def __getitem__(self, key: str) -> MemoryColumn:
        if key not in self._half:
            raise SchemaError(f"the memory has no key '{key}'; it has {', '.join(self._half)}")
        return MemoryColumn(self._ring, key, self._half[key], self._count)

    def __contains__(self, key: object) -> bool:
        return key in self._half

    def __iter__(self) -> Iterator[str]:
        return iter(self._half)

    def __len__(self) -> int:
        return len(self._half)


class MemoryColumn:
    """A key of a memory: an array [B, n, ...] whose first two axes are read when they are indexed.

    `column[:, -8:]` are the last entries of all workers, `column[workers, entries]` single ones.
    """

    def __init__(self, ring: Ring, key: str, half: Array, count: int) -> None:
        self.shape: tuple[int, ...] = (len(half), count + half.shape[1], *half.shape[2:])
        self.dtype = half.dtype
        self._store = ring.column(key)
        self._oldest = ring.cursor - ring.count
        self._capacity = ring.capacity
        self._half = half
        self._count = count

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        whole: Array = self[:]
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __getitem__(self, index: Tree) -> Tree:
        """Returns entries as an array, by the rules of NumPy."""
        parts = index if isinstance(index, tuple) else (index,)
        first, second, *rest = (*parts, slice(None), slice(None))[: max(2, len(parts))]
        workers, entries = _numbers(first, self.shape[0]), _numbers(second, self.shape[1])
        if isinstance(first, slice) or isinstance(second, slice):
            workers = workers.reshape(*workers.shape, *(1,) * entries.ndim)
        workers, entries = np.broadcast_arrays(workers, entries)
        found = self._gather(workers, entries)
        return found[(slice(None),) * entries.ndim + tuple(rest)] if rest else found

    def _gather(self, workers: Array, entries: Array) -> Array:
        flat, at = entries.ravel(), workers.ravel()
        whole = flat < self._count
        slots = (self._oldest + np.where(whole, flat, 0) * len(self) + at) % self._capacity
        out = np.asarray(self._store.take(slots, 0, None, "clip"))
        if not whole.all():
            out[~whole] = self._half[at[~whole], flat[~whole] - self._count]
        return out.reshape((*entries.shape, *self.shape[2:]))


def _numbers(index: Tree, count: int) -> npt.NDArray[np.int64]:
    """Returns what an index selects of an axis, as numbers from 0."""
    if isinstance(index, slice):
        return np.arange(*index.indices(count))
    numbers = np.asarray(index)
    if numbers.dtype == np.bool_:
        return np.flatnonzero(numbers)
    numbers = np.where(numbers < 0, numbers + count, numbers)
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < count):
        raise IndexError(f"index {index} of an axis of {count}")
    return numbers.astype(np.int64)


def _by_step(rows: Array) -> Array:
    """Returns [B, T, ...] as rows [T * B, ...], step by step."""
    workers, steps, *item = rows.shape
    return rows.swapaxes(0, 1).reshape(steps * workers, *item)
