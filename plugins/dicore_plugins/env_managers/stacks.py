"""Storage of frame stacks in an env manager: each frame is copied once, and stacks are numbers.

Shapes: K environments, k frames in a stack; `...` one frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from dicore_plugins.env_managers.faults import Fault
from dicore_plugins.env_managers.observations import Leaf
from dicore_plugins.env_wrappers.frame_stack import Frame, LazyFrames
from dicore_plugins.frames import Chunk, FrameWriter, StackedFrames

__all__ = ["StackLeaf"]


class StackLeaf:
    """Stores an observation, or a part of one, that is a frame stack; see `Leaf`.

    Its blocks are `StackedFrames` [K, k, ...].

    Args:
        path: Path in the observation, for messages; '' for the whole observation.
        space: A `StackedBox`.
    """

    large = False

    def __init__(self, path: str, space: Any) -> None:
        self.path = path
        self._whole = Leaf(path, tuple(space.shape), space.dtype, space.low, space.high)
        frame = space.frame
        self._frame = Leaf(path, tuple(frame.shape), frame.dtype)
        self._depth = int(space.shape[0])
        self._writer = FrameWriter(self._frame.shape, self._frame.dtype)
        self._held: deque[Any] = deque(maxlen=1)

    def empty(self, count: int) -> StackedFrames:
        """Returns `count` stacks to be written."""
        if 4 * count > (self._held.maxlen or 0):
            self._held = deque(self._held, maxlen=4 * count)
        return StackedFrames(np.full((count, self._depth), -1, np.int64), (self._writer.chunk,))

    def stack(self, obs: list[Any], room: Any = None) -> StackedFrames | None:
        """Stacks K observations; None if one does not match the space, see `Leaf.stack`."""
        chunks: dict[int, Chunk] = {}
        numbers = []
        for each in obs:
            row = self._numbers(each, chunks)
            if row is None:
                return None
            numbers.append(row)
            if each.__class__ is LazyFrames and each.frames[-1].token is not None:
                self._held.append(each)  # frames received again are known while they are alive
        return StackedFrames(np.array(numbers, np.int64), (*chunks.values(),))

    def _numbers(self, obs: Any, chunks: dict[int, Chunk]) -> list[int] | None:
        """Returns the numbers of the frames of one stack, and adds their chunks to `chunks`."""
        if obs.__class__ is not LazyFrames:
            obs = self._lazy(obs)
        if obs is None or len(obs.frames) != self._depth:
            return None
        numbers = []
        for frame in obs.frames:
            chunk = frame.chunk
            if chunk is None:
                chunk = self._store(frame)
                if chunk is None:
                    return None
            chunks[chunk.first] = chunk
            numbers.append(frame.number)
        return numbers

    def _lazy(self, obs: Any) -> LazyFrames | None:
        """Returns a stack that came as an array, for instance through a wrapper, as frames."""
        if self._whole.fault(obs) is not None:
            return None
        return LazyFrames(tuple(Frame(frame) for frame in np.asarray(obs)))

    def _store(self, frame: Frame) -> Chunk | None:
        """Copies a frame into a chunk; None if it does not match the space."""
        writer, leaf = self._writer, self._frame
        row = writer.next_row()
        chunk = writer.chunk
        if not leaf.try_write(chunk.frames, row, frame.array):
            if leaf.fault(frame.array) is not None:
                return None
            leaf.write(chunk.frames, row, frame.array)
        frame.number, frame.chunk, frame.array = writer.done(), chunk, chunk.frames[row]
        return chunk

    def stacked(self, block: Any, count: int) -> StackedFrames | None:
        """Returns observations that are stacked already; see `Leaf.stacked`."""
        if block.__class__ is StackedFrames:
            good = block.shape == (count, *self._whole.shape) and block.dtype == self._whole.dtype
            return block if good else None
        array = self._whole.stacked(block, count)
        return None if array is None else StackedFrames.of(array)

    def fault(self, obs: Any) -> Fault | None:
        """Returns why one observation is invalid, or None."""
        if obs.__class__ is LazyFrames and len(obs.frames) == self._depth:
            faults = (self._frame.fault(frame.array) for frame in obs.frames)
            return next((fault for fault in faults if fault is not None), None)
        return self._whole.fault(obs)

    def outside(self, block: Any) -> dict[str, str]:
        """Returns a message by path if a value is outside of the bounds."""
        return self._whole.outside(np.asarray(block)) if self._whole.bounded else {}

    def try_write(self, block: StackedFrames, row: int, obs: Any) -> bool:
        """Stores one observation; returns whether it is valid."""
        stacks = self.stack([obs])
        if stacks is not None:
            block[row : row + 1] = stacks
        return stacks is not None

    write = try_write

    def put(self, block: StackedFrames, rows: Sequence[int], source: Any) -> None:
        """Copies stacks into some rows."""
        block[rows] = source

    def copy(self, source: StackedFrames, room: Any = None) -> Any:
        """Copies stacks, into `room` if given: other stacks, or an array."""
        if room is None:
            return source.copy()
        room[...] = source
        return room

    def overwrite(self, block: StackedFrames) -> None:
        """Does nothing: frames are never overwritten."""
