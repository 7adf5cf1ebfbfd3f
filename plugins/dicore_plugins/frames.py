"""Frame stacks without copies: each frame is in memory once, and a stack is k numbers of frames.

Shapes: B stacks of k frames; `...` one frame.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Self, SupportsIndex

import numpy as np
import numpy.typing as npt
import optree
from numpy.lib.mixins import NDArrayOperatorsMixin

from dicore.values import Tree

__all__ = ["Chunk", "FrameWriter", "StackedFrames", "unpacked"]

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]

_CHUNK_BYTES = 4 << 20
"""Bytes of frames that are allocated at once."""
_PACKED = frozenset({"stacked_frames", "frame_numbers"})


class _Counter:
    """Gives out ranges of frame numbers, which are unique in the process."""

    def __init__(self) -> None:
        self._next = 0
        self._lock = threading.Lock()

    def take(self, count: int) -> int:
        with self._lock:
            first = self._next
            self._next += count
        return first


_NUMBERS = _Counter()


class Chunk:
    """Frames in memory, which never change once they are written.

    Args:
        frames: Arrays [F, ...].

    Attributes:
        first: Number of the first frame; the others follow.
        end: Number after the last one.
    """

    __slots__ = ("end", "first", "frames")

    def __init__(self, frames: Array) -> None:
        self.frames = frames
        self.first = _NUMBERS.take(len(frames))
        self.end = self.first + len(frames)


class FrameWriter:
    """Copies frames into chunks, one after the other.

    Args:
        shape: Shape of one frame.
        dtype: Its dtype.

    Attributes:
        chunk: The chunk that is written to.
    """

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        size = max(1, int(np.prod(shape)) * np.dtype(dtype).itemsize)
        self._shape, self._dtype = shape, dtype
        self._count = max(16, min(_CHUNK_BYTES // size, 1 << 16))
        self._renew()

    def _renew(self) -> None:
        self.chunk = Chunk(np.empty((self._count, *self._shape), self._dtype))
        self._row = 0

    def next_row(self) -> int:
        """Returns a free row of `chunk`, which may be a new one; see `done`."""
        if self._row == self._count:
            self._renew()
        return self._row

    def done(self) -> int:
        """Returns the number of the frame that was written to `next_row`."""
        number = self.chunk.first + self._row
        self._row += 1
        return number

    def copy_from(self, source: Array, rows: npt.NDArray[np.intp]) -> StackedFrames:
        """Copies frames from rows of an array [S, ...]; returns their numbers [F]."""
        numbers, chunks, start = np.empty(len(rows), np.int64), [], 0
        while start < len(rows):
            row = self.next_row()
            stop = min(len(rows), start + self._count - row)
            out = self.chunk.frames[row : row + stop - start]
            source.take(rows[start:stop], 0, out, "clip")
            numbers[start:stop] = np.arange(stop - start) + self.chunk.first + row
            chunks.append(self.chunk)
            self._row += stop - start
            start = stop
        return StackedFrames(numbers, (*chunks,))


class ArrayLike(NDArrayOperatorsMixin):
    """Behaves as the array that `__array__` returns, in operators, functions and attributes."""

    __slots__ = ()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        raise NotImplementedError

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: Tree
    ) -> Tree:
        if any(isinstance(each, ArrayLike) for each in kwargs.get("out", ())):
            return NotImplemented  # frames never change
        return getattr(ufunc, method)(*map(_dense, inputs), **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(np.asarray(self), name)

    __hash__ = None  # type: ignore[assignment]


def _dense(value: object) -> object:
    return np.asarray(value) if isinstance(value, ArrayLike) else value


class StackedFrames(ArrayLike):
    """Frame stacks [..., k, ...frame] as numbers of frames; NumPy sees them as an array.

    Indexing and reshaping the axes before k, and concatenating, select numbers and copy no frame.
    All else, `np.asarray` first, copies the frames together. One stack by an integer index is an
    array.

    Args:
        numbers: int64 [..., k]; -1 where nothing is written yet.
        chunks: Chunks with at least these frames, all of one shape and dtype.

    Attributes:
        numbers: As passed.
        chunks: Those of the frames, and perhaps others.
    """

    __slots__ = ("_limit", "chunks", "numbers")

    def __init__(self, numbers: Numbers, chunks: tuple[Chunk, ...]) -> None:
        self.numbers = numbers
        self.chunks = chunks
        self._limit = 8

    @classmethod
    def of(cls, stacks: Tree) -> Self:
        """Returns stacks whose frames are copies of arrays [..., k, ...frame] with one B axis."""
        array = np.asarray(stacks)
        count, depth = array.shape[:2]
        chunk = Chunk(array.reshape(count * depth, *array.shape[2:]).copy())
        return cls(np.arange(chunk.first, chunk.end).reshape(count, depth), (chunk,))

    # ---- as an array

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """Shape of one frame."""
        shape: tuple[int, ...] = self.chunks[0].frames.shape[1:]
        return shape

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.numbers.shape, *self.frame_shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.chunks[0].frames.dtype
        return dtype

    def __len__(self) -> int:
        return len(self.numbers)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("stacked frames become an array only by copying them")
        out = self.read()
        return out if dtype is None else out.astype(dtype, copy=False)

    def read(self, out: Array | None = None) -> Array:
        """Copies the frames of all stacks together.

        Args:
            out: Contiguous memory for the result; None: new memory.
        """
        if out is None:
            out = np.empty(self.shape, self.dtype)
        copy_frames(self.chunks, self.numbers.ravel(), out.reshape(-1, *self.frame_shape))
        return out

    def __array_function__(
        self,
        func: Callable[..., Tree],
        types: Sequence[type],
        args: Sequence[Tree],
        kwargs: dict[str, Tree],
    ) -> Tree:
        own = _FUNCTIONS.get(func)
        if own is not None:
            return own(*args, **kwargs)
        return func(*optree.tree_map(_dense, tuple(args)), **optree.tree_map(_dense, kwargs))

    # ---- selecting stacks

    def __getitem__(self, index: Any) -> Tree:
        items = index if isinstance(index, tuple) else (index,)
        if any(each is Ellipsis for each in items):
            return np.asarray(self)[index]
        try:
            numbers = self.numbers[index]
        except IndexError:  # beyond the numbers: into the frames
            return np.asarray(self)[index]
        if np.ndim(numbers) == 0:
            return StackedFrames(np.array([numbers]), self.chunks).read()[0]
        return self._of(numbers) if numbers.ndim > 1 else StackedFrames(numbers, self.chunks).read()

    def __setitem__(self, index: Any, value: Any) -> None:
        stacks = value
        if not (
            isinstance(value, StackedFrames)
            and value.dtype == self.dtype
            and value.frame_shape == self.frame_shape
        ):
            stacks = StackedFrames.of(np.asarray(value, self.dtype))
        self.numbers[index] = stacks.numbers
        if stacks.chunks is not self.chunks:
            new = [chunk for chunk in stacks.chunks if chunk not in self.chunks]
            if new:
                self.chunks = (*self.chunks, *new)
                if len(self.chunks) > self._limit:
                    self.drop_unused()

    def reshape(self, *shape: Any) -> StackedFrames:
        """Reshapes the axes before k; the others must stay."""
        sizes = tuple(shape[0]) if isinstance(shape[0], tuple | list) else shape
        kept = len(self.frame_shape)
        if tuple(sizes[len(sizes) - kept :]) != self.frame_shape or sizes[-kept - 1] not in (
            -1, self.numbers.shape[-1],
        ):  # fmt: skip
            raise ValueError(f"cannot reshape frame stacks {self.shape} to {sizes}")
        numbers = self.numbers.reshape(sizes[: len(sizes) - kept])
        return self._of(numbers)

    def swapaxes(self, one: SupportsIndex, other: SupportsIndex) -> StackedFrames:
        """Swaps two axes before k."""
        if max(int(one), int(other)) >= self.numbers.ndim - 1 or min(int(one), int(other)) < 0:
            raise ValueError("only axes before those of a stack can be swapped")
        return self._of(self.numbers.swapaxes(one, other))

    def take(self, index: npt.NDArray[np.intp], axis: int = 0) -> StackedFrames:
        """Selects stacks by their positions along the first axis."""
        if axis:
            raise ValueError("take selects along the first axis")
        return self._of(self.numbers.take(index, 0))

    def copy(self) -> StackedFrames:
        """Returns the same stacks with numbers of their own; frames are not copied."""
        return StackedFrames(self.numbers.copy(), self.chunks)

    def _of(self, numbers: Numbers) -> StackedFrames:
        if numbers.base is not None:  # to write there would not add the chunks here
            numbers.flags.writeable = False
        return StackedFrames(numbers, self.chunks)

    def __reduce__(self) -> tuple[object, ...]:
        state = self.packed()
        return _unpack, (state["stacked_frames"], state["frame_numbers"])

    # ---- memory

    def drop_unused(self, rows: int | None = None) -> None:
        """Lets go of the chunks without any frame of these stacks.

        Args:
            rows: Stacks from this row on are forgotten; None: none.
        """
        if rows is not None:
            self.numbers[rows:] = -1
        found = np.unique(self.numbers[:rows])
        counts = [np.diff(np.searchsorted(found, (c.first, c.end)))[0] for c in self.chunks]
        used = tuple(chunk for chunk, count in zip(self.chunks, counts, strict=True) if count)
        self.chunks = used or self.chunks[-1:]
        self._limit = max(8, 2 * len(self.chunks))

    def packed(self) -> dict[str, Array]:
        """Returns the frames, each once, and the rows [..., k] of the stacks in them."""
        found, rows = np.unique(self.numbers, return_inverse=True)
        rows = rows.reshape(self.numbers.shape)
        unwritten = int(np.searchsorted(found, 0))
        found = found[unwritten:]
        frames = np.empty((len(found), *self.frame_shape), self.dtype)
        copy_frames(self.chunks, found, frames)
        return {"stacked_frames": frames, "frame_numbers": rows - unwritten}


def copy_frames(chunks: Sequence[Chunk], numbers: Numbers, out: Array) -> None:
    """Copies frames by their numbers [F] into `out` [F, ...]; all of them are in `chunks`."""
    if len(chunks) == 1:
        chunks[0].frames.take(numbers - chunks[0].first, 0, out, "clip")
        return
    for chunk in chunks:
        rows = np.flatnonzero((numbers >= chunk.first) & (numbers < chunk.end))
        if len(rows):
            out[rows] = chunk.frames[numbers[rows] - chunk.first]


def _joined(stacks: Sequence[Tree], axis: int = 0) -> Tree:
    """Concatenates along the first axis; with other arrays, or along another axis, as arrays."""
    if axis != 0 or not all(isinstance(each, StackedFrames) for each in stacks):
        return np.concatenate([np.asarray(each) for each in stacks], axis)
    chunks = {id(chunk): chunk for each in stacks for chunk in each.chunks}
    return StackedFrames(np.concatenate([each.numbers for each in stacks]), (*chunks.values(),))


def _empty_like(
    like: StackedFrames,
    dtype: npt.DTypeLike | None = None,
    *,
    shape: Sequence[int] | None = None,
    **_: object,
) -> Tree:
    kept = len(like.frame_shape)
    wanted = like.shape if shape is None else tuple(shape)
    if wanted[len(wanted) - kept :] != like.frame_shape or dtype not in (None, like.dtype):
        return np.empty(wanted, like.dtype if dtype is None else dtype)
    return StackedFrames(np.full(wanted[: len(wanted) - kept], -1, np.int64), like.chunks[-1:])


_FUNCTIONS: dict[object, Callable[..., Tree]] = {
    np.concatenate: _joined,
    np.copy: lambda stacks, *_, **__: stacks.copy(),
    np.empty_like: _empty_like,
    np.ndim: lambda stacks: stacks.ndim,
    np.shape: lambda stacks: stacks.shape,
}


def _unpack(frames: Array, rows: Array) -> StackedFrames:
    chunk = Chunk(np.asarray(frames))
    numbers = np.asarray(rows, np.int64)
    return StackedFrames(np.where(numbers < 0, -1, numbers + chunk.first), (chunk,))


def unpacked(tree: Tree) -> Tree:
    """Returns a tree of columns in which packed stacks are `StackedFrames` again."""
    return optree.tree_map(
        lambda leaf: (
            _unpack(leaf["stacked_frames"], leaf["frame_numbers"]) if _is_packed(leaf) else leaf
        ),
        tree,
        is_leaf=_is_packed,
    )


def _is_packed(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == _PACKED
