"""Storage of frame stacks in a ring: each frame is stored once, as long as a sample has it.

Shapes: C samples, B drawn, F frames stored, k frames in a stack; `...` one frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import optree

from dicore.data import Batch, State, StateDict, Tree
from dicore.errors import SchemaError
from dicore_plugins.buffers.memory import Fact, Form, verdict
from dicore_plugins.buffers.storage import Storage
from dicore_plugins.frames import Chunk, StackedFrames

__all__ = ["FrameStore", "StackColumn", "gather", "stack_columns"]

Array = npt.NDArray[Any]
Slots = npt.NDArray[np.int32]

_PIECE = 1024
"""Frames that are copied at once."""
_FEW = 64
"""Samples whose stacks are gathered at once."""
_SPARE = 32
"""Room for frames beyond one per sample, as a part of the capacity; more is added when needed."""


class FrameStore:
    """Frames of the samples of a ring, with the number of places that refer to each.

    Args:
        shape: Shape of one frame.
        dtype: Its dtype.
        capacity: C; most samples have one frame that no earlier sample has.
        storage: Allocates the frames; None: an array in memory.

    Attributes:
        frames: Arrays [F, ...] by slot.
        columns: Positions of the columns whose stacks have frames here, among all of the ring.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        capacity: int,
        storage: Storage | None = None,
    ) -> None:
        room = capacity + max(64, capacity // _SPARE)
        self._empty = np.empty if storage is None else storage.empty
        self.frames: Tree = self._empty((room, *shape), dtype)
        self._used = 0
        self._free: Slots = np.empty(0, np.int32)
        self._refs: Slots = np.zeros(room, np.int32)
        self._number = np.full(room, -2, np.int64)  # -1 is a frame that was never written
        self._slot_of: Slots = np.zeros(1 << (2 * room - 1).bit_length(), np.int32)
        self.columns: list[int] = []

    def check(self, leaves: list[Tree]) -> None:
        """Raises SchemaError if one of the columns of a push has stacks without frames."""
        for leaf in leaves:
            if isinstance(leaf, StackedFrames) and leaf.numbers.size and leaf.numbers.min() < 0:
                raise SchemaError(
                    "some of the pushed frame stacks were never written",
                    hint="push only rows that the collector wrote",
                )

    def add(self, stacks: StackedFrames) -> Slots:
        """Stores the frames that are not stored yet, and counts the references.

        Returns:
            int32, the slots of the frames, in the shape of `stacks.numbers`.
        """
        numbers = stacks.numbers
        slots: Slots = self._slot_of[numbers & (len(self._slot_of) - 1)]
        unknown = self._number[slots] != numbers
        if unknown.any():
            wanted = numbers[unknown]
            new = np.unique(wanted)
            taken = self._take(len(new))
            self._write(stacks, new, taken)
            self._number[taken] = new
            self._slot_of[new & (len(self._slot_of) - 1)] = taken
            slots[unknown] = taken[np.searchsorted(new, wanted)]
        np.add.at(self._refs, slots.ravel(), 1)
        return slots

    def drop(self, slots: Slots) -> None:
        """Removes references; frames without any are forgotten."""
        flat = slots.ravel()
        np.subtract.at(self._refs, flat, 1)
        dead = flat[self._refs[flat] == 0]
        if len(dead):
            dead = np.unique(dead)
            self._number[dead] = -2
            self._free = np.concatenate([self._free, dead])

    def _take(self, count: int) -> Slots:
        """Returns slots for new frames: first those that are free again."""
        again = self._free[max(0, len(self._free) - count) :]
        self._free = self._free[: len(self._free) - len(again)]
        start, self._used = self._used, self._used + count - len(again)
        if self._used > len(self.frames):
            self._grow(self._used)
        if start == self._used:
            return again
        return np.concatenate([again, np.arange(start, self._used, dtype=np.int32)])

    def _grow(self, least: int) -> None:
        room = max(least, len(self.frames) + len(self.frames) // 8)
        old, more = len(self.frames), room - len(self.frames)
        try:
            self.frames.resize((room, *self.frames.shape[1:]))  # most often without a copy
        except (ValueError, AttributeError):  # views of it are in use, or it is no array
            frames = self._empty((room, *self.frames.shape[1:]), self.frames.dtype)
            for start in range(0, old, _PIECE):
                piece = slice(start, min(old, start + _PIECE))
                frames[piece] = self.frames[piece]
            self.frames = frames
        self._refs = np.concatenate([self._refs, np.zeros(more, np.int32)])
        self._number = np.concatenate([self._number, np.full(more, -2, np.int64)])
        if 2 * room > len(self._slot_of):
            self._slot_of = np.zeros(2 * len(self._slot_of), np.int32)
            live = np.flatnonzero(self._number >= 0)
            self._slot_of[self._number[live] & (len(self._slot_of) - 1)] = live

    def _write(self, stacks: StackedFrames, numbers: Array, slots: Slots) -> None:
        for chunk in stacks.chunks:
            first, end = np.searchsorted(numbers, (chunk.first, chunk.end))
            if first < end:
                self.frames[slots[first:end]] = chunk.frames[numbers[first:end] - chunk.first]

    # ---- state

    def check_valid(self, columns: Sequence[StackColumn]) -> tuple[bool, str]:
        """Returns whether the frames are those of the stacks in the columns, or why not."""
        return verdict(self._facts(columns))

    def _facts(self, columns: Sequence[StackColumn]) -> Iterator[Fact]:
        used = [column.slots[column.slots[:, 0] >= 0].ravel() for column in columns]
        refs = np.bincount(np.concatenate(used), minlength=len(self._refs))
        same = np.array_equal(refs, self._refs)
        yield same, "the references to frames are not those of the stacks"
        live = np.flatnonzero(refs)
        yield live.max(initial=-1) < self._used <= len(self.frames), "a frame was never written"
        yield not np.isin(self._free, live).any(), "a frame of a stack counts as free"
        yield (self._number[live] >= 0).all(), "a frame of a stack has no number"

    def state_dict(self) -> StateDict:
        """Returns the frames, as a view, and the free slots among them."""
        if len(self._free):
            blank = np.zeros((len(self._free), *self.frames.shape[1:]), self.frames.dtype)
            self.frames[self._free] = blank
        return {
            "frames": self.frames[: self._used],
            "free": self._free,
            "columns": list(self.columns),
        }

    def load(self, chunk: Chunk, free: Tree) -> None:
        """Stores the frames of a saved store in the same slots; no stack refers to them yet."""
        count = len(chunk.frames)
        if count > len(self.frames):
            self._grow(count)
        for start in range(0, count, _PIECE):
            piece = slice(start, min(count, start + _PIECE))
            self.frames[piece] = chunk.frames[piece]
        self._used, self._free = count, np.array(free, np.int32)
        self._number[:count] = np.arange(chunk.first, chunk.end)
        self._slot_of[self._number[:count] & (len(self._slot_of) - 1)] = np.arange(count)
        self._number[self._free] = -2


class StackColumn:
    """A column of a ring: the stacks of C samples, as slots of frames in a store.

    It has the part of an array [C, k, ...] that `Ring` uses.

    Args:
        store: Holds the frames, also of other columns.
        capacity: C.
        depth: k.
    """

    def __init__(self, store: FrameStore, capacity: int, depth: int) -> None:
        self.store = store
        self.slots: Slots = np.full((capacity, depth), -1, np.int32)
        self.shape = (capacity, depth, *store.frames.shape[1:])
        self.dtype = store.frames.dtype

    def __setitem__(self, rows: Tree, stacks: Tree) -> None:
        if not isinstance(stacks, StackedFrames):
            stacks = StackedFrames.of(np.asarray(stacks, self.dtype))
        old = self.slots[rows]
        held = old[:, 0] >= 0
        if held.any():
            self.store.drop(old[held])
        self.slots[rows] = self.store.add(stacks)

    def __getitem__(self, rows: slice) -> Slots:
        return self.slots[rows]

    def take(self, rows: Tree, axis: int, out: Array | None, mode: str) -> Array:
        """Copies the stacks of samples together, [B, k, ...]; as `ndarray.take`."""
        slots = self.slots.take(rows, 0).ravel()
        flat = None if out is None else out.reshape(-1, *self.shape[2:])
        taken: Array = self.store.frames.take(slots, 0, flat, mode)
        return taken.reshape(-1, *self.shape[1:]) if out is None else out


def gather(columns: Sequence[Tree], slots: Tree, leaves: Sequence[Tree]) -> None:
    """Copies samples together, the stacks of few at a time: their frames are in the cache then.

    Args:
        columns: Columns of a ring.
        slots: int64 [B].
        leaves: Memory for them, [B, ...].
    """
    stacked = []
    for column, leaf in zip(columns, leaves, strict=True):
        if isinstance(column, StackColumn):
            depth, *frame = column.shape[1:]
            rows = column.slots.take(slots, 0).ravel()
            stacked.append((column.store.frames, rows, leaf.reshape(-1, *frame), _FEW * depth))
        else:
            column.take(slots, 0, leaf, "clip")
    for number in range(-(-len(slots) // _FEW)):
        for frames, rows, out, count in stacked:
            few = slice(number * count, (number + 1) * count)
            frames.take(rows[few], 0, out[few], "clip")


def stack_columns(
    arrays: list[Tree], capacity: int, storage: Storage | None = None
) -> tuple[dict[int, StackColumn], list[FrameStore]]:
    """Returns the columns of frame stacks by position, and the stores of their frames.

    Args:
        arrays: The leaves of the first push, some of which are `StackedFrames`.
        capacity: C.
        storage: Allocates the frames; None: arrays in memory.
    """
    stores: dict[Form, FrameStore] = {}
    columns: dict[int, StackColumn] = {}
    for at, array in enumerate(arrays):
        if isinstance(array, StackedFrames):
            form = array.frame_shape, array.dtype
            if form not in stores:
                stores[form] = FrameStore(array.frame_shape, array.dtype, capacity, storage)
            stores[form].columns.append(at)
            columns[at] = StackColumn(stores[form], capacity, array.numbers.shape[-1])
    return columns, [*stores.values()]


def restored(samples: Batch, states: Sequence[State]) -> tuple[Batch, list[Chunk]]:
    """Returns saved samples with their stacks, and a chunk for each saved store.

    Args:
        samples: Columns in which stacks are slots.
        states: States of the stores, see `FrameStore.state_dict`.
    """
    leaves, spec = optree.tree_flatten(samples.columns)
    chunks = [Chunk(np.asarray(state["frames"])) for state in states]
    for chunk, state in zip(chunks, states, strict=True):
        for at in state["columns"]:
            leaves[at] = StackedFrames(leaves[at].astype(np.int64) + chunk.first, (chunk,))
    columns: Tree = optree.tree_unflatten(spec, leaves)
    return Batch(columns, len(samples)), chunks
