"""Storage of frame stacks in an env manager: each frame is copied once, and stacks are numbers.

Shapes: N environments, K of them named, k frames in a stack; `...` one frame.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dicore.data import Tree
from dicore.data.tree import Array
from dicore_plugins.env_managers.faults import Fault
from dicore_plugins.env_wrappers.frame_stack import Frame, LazyFrames
from dicore_plugins.frames import Chunk, FrameWriter, StackedFrames

if TYPE_CHECKING:
    from dicore_plugins.env_managers.observations import Leaf

__all__ = ["SharedStacks", "StackLeaf"]


class StackLeaf:
    """Stores an observation, or a part of one, that is a frame stack; see `Leaf`.

    Its blocks are `StackedFrames` [K, k, ...].

    Args:
        whole: Storage of a stack that is one array [k, ...].
        frame: Storage of one frame.
    """

    large = False

    def __init__(self, whole: Leaf, frame: Leaf) -> None:
        self.path = whole.path
        self._whole = whole
        self._frame = frame
        self._depth = whole.shape[0]
        self._writer = FrameWriter(self._frame.shape, self._frame.dtype)
        self._last: tuple[Array, StackedFrames] | None = None
        self._held: deque[Tree] = deque(maxlen=1)

    def empty(self, count: int) -> StackedFrames:
        """Returns `count` stacks to be written."""
        if 4 * count > (self._held.maxlen or 0):
            self._held = deque(self._held, maxlen=4 * count)
        return StackedFrames(np.full((count, self._depth), -1, np.int64), (self._writer.chunk,))

    def stack(self, obs: list[Tree], room: Tree = None) -> StackedFrames | None:
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

    def _numbers(self, obs: Tree, chunks: dict[int, Chunk]) -> list[int] | None:
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

    def _lazy(self, obs: Tree) -> LazyFrames | None:
        """Returns a stack that came as an array, for instance through a wrapper, as frames."""
        if self._whole.fault(obs) is not None:
            return None
        frames: list[Frame] = []
        for array in np.asarray(obs):
            same = bool(frames) and np.array_equal(frames[-1].array, array)
            frames.append(frames[-1] if same else Frame(array))
        return LazyFrames((*frames,))

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

    def stacked(self, block: Tree, count: int) -> StackedFrames | None:
        """Returns observations that are stacked already; see `Leaf.stacked`."""
        if block.__class__ is StackedFrames:
            good = block.shape == (count, *self._whole.shape) and block.dtype == self._whole.dtype
            return block if good else None
        array = self._whole.stacked(block, count)
        return None if array is None else self._shared(array)

    def _shared(self, array: Array) -> StackedFrames:
        """Returns stacks that came as an array; equal frames in a row are copied once."""
        before, numbers = self._last, np.full(array.shape[:2], -1, np.int64)
        axes = tuple(range(1, array.ndim))
        if before is not None and before[0].shape == array.shape:
            moved = (array[:, :-1] == before[0][:, 1:]).all(axes)
            numbers[moved, :-1] = before[1].numbers[moved, 1:]
            again = (array == before[0]).all(axes)
            numbers[again] = before[1].numbers[again]
        else:
            before = None
        unknown = numbers < 0
        unknown[:, 1:] &= ~((array[:, 1:] == array[:, :-1]).all(axes[1:]) & unknown[:, :-1])
        rows = np.flatnonzero(unknown)
        new = self._writer.copy_from(array.reshape(-1, *array.shape[2:]), rows)
        numbers[unknown] = new.numbers
        for at in range(1, self._depth):
            same = numbers[:, at] < 0
            numbers[same, at] = numbers[same, at - 1]
        chunks = new.chunks if before is None else (*before[1].chunks, *new.chunks)
        stacks = StackedFrames(numbers, tuple(dict.fromkeys(chunks)))
        if len(stacks.chunks) > 2:
            stacks.drop_unused()
        self._last = array.copy(), stacks
        return stacks.copy()

    def fault(self, obs: Tree) -> Fault | None:
        """Returns why one observation is invalid, or None."""
        if obs.__class__ is LazyFrames and len(obs.frames) == self._depth:
            faults = (self._frame.fault(frame.array) for frame in obs.frames)
            return next((fault for fault in faults if fault is not None), None)
        return self._whole.fault(obs)

    def outside(self, block: Tree) -> dict[str, str]:
        """Returns a message by path if a value is outside of the bounds."""
        return self._whole.outside(np.asarray(block)) if self._whole.bounded else {}

    def try_write(self, block: StackedFrames | SharedStacks, row: int, obs: Tree) -> bool:
        """Stores one observation; returns whether it is valid."""
        if isinstance(block, SharedStacks):
            stack = obs if obs.__class__ is LazyFrames else self._lazy(obs)
            return stack is not None and block.write(row, stack, self._frame)
        stacks = self.stack([obs])
        if stacks is None:
            return False
        block[row : row + 1] = stacks
        if obs.__class__ is not LazyFrames:  # the array of the next step continues it
            if self._last is None:
                self._last = np.zeros(block.shape, block.dtype), self.empty(len(block))
            self._last[0][row] = obs
            self._last[1][row : row + 1] = stacks
        return True

    write = try_write

    def put(self, block: StackedFrames, rows: Sequence[int], source: Tree) -> None:
        """Copies stacks into some rows."""
        block[rows] = source

    def copy(self, source: StackedFrames, room: Tree = None) -> Tree:
        """Copies stacks, into `room` if given: other stacks, or an array."""
        if room is None:
            return source.copy()
        room[...] = source
        return room

    def overwrite(self, block: StackedFrames) -> None:
        """Does nothing: frames are never overwritten."""


class _SharedFrames:
    """The last 2 k frames of each environment, in memory of the main process and a worker.

    A worker gives each frame a serial number s and writes it to place s % (2 k). So the last stack
    of an episode is whole even if its environment has been reset, also by a reset that takes steps.

    Args:
        memory: Shared memory [N, 2 k, ...].
        env_num: N.
        places: 2 k.
    """

    def __init__(self, memory: Array, env_num: int, places: int) -> None:
        self.memory, self.places = memory, places
        self._env_num = env_num
        self._last: list[int] = []
        self._writer: FrameWriter | None = None

    def serial(self, env_id: int, frame: Frame, leaf: Leaf) -> int:
        """Returns the serial number of a frame, which is written if it has none, in a worker.

        Returns:
            -1 if the frame does not match the space.
        """
        if not self._last:  # no other worker gives the same numbers
            self._last = [secrets.randbits(30) << 32] * self._env_num
        if frame.number > self._last[env_id] - self.places:
            return frame.number
        serial = self._last[env_id] + 1
        room, place = self.memory[env_id], serial % self.places
        if not leaf.try_write(room, place, frame.array):
            if leaf.fault(frame.array) is not None:
                return -1
            leaf.write(room, place, frame.array)
        self._last[env_id] = frame.number = serial
        return serial

    def read(self, env_id: npt.NDArray[np.int64], serials: npt.NDArray[np.int64]) -> StackedFrames:
        """Copies the frames that were not read before, in the main process.

        Args:
            env_id: int64 [K].
            serials: int64 [K, k].
        """
        if self._writer is None:
            self._writer = FrameWriter(self.memory.shape[2:], self.memory.dtype)
            self._known = np.full(self._env_num * self.places, -1, np.int64)
            self._read = StackedFrames(self._known.copy(), (self._writer.chunk,))
        cells = env_id[:, None] * self.places + serials % self.places
        new = self._known[cells] != serials
        if new.any():
            self._known[cells] = serials
            wanted = np.unique(cells[new])
            source = self.memory.reshape(-1, *self.memory.shape[2:])
            self._read[wanted] = self._writer.copy_from(source, wanted)
            if len(self._read.chunks) > 2:
                self._read.drop_unused()
        return StackedFrames(self._read.numbers[cells], self._read.chunks)


class SharedStacks:
    """A block of frame stacks of N environments, in memory of the main process and its workers.

    Indexed by env ids, it returns `StackedFrames`; by one env id, `LazyFrames`.

    Args:
        shape: (N, k, ...).
        dtype: Of the frames.
        column: Returns shared memory of a shape and dtype.
        beside: Another block, which holds frames of the same environments; None: there is none.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: object,
        column: Callable[[tuple[int, ...], Tree], Array],
        beside: SharedStacks | None = None,
    ) -> None:
        count, depth, *frame = shape
        self._serials = column((count, depth), np.int64)
        self._env_id = np.arange(count)
        if beside is None:
            memory = column((count, 2 * depth, *frame), dtype)
            self.frames = _SharedFrames(memory, count, 2 * depth)
        else:
            self.frames = beside.frames

    def write(self, env_id: int, stack: LazyFrames, leaf: Leaf) -> bool:
        """Stores a stack, of which only new frames are copied; returns whether it is valid."""
        if 2 * len(stack.frames) != self.frames.places:
            return False
        serials = [self.frames.serial(env_id, frame, leaf) for frame in stack.frames]
        self._serials[env_id] = serials
        return min(serials) >= 0

    def __getitem__(self, index: Tree) -> Tree:
        if isinstance(index, tuple):
            (stack,) = self._lazy(self[[index[0]]])
            return stack
        return self.frames.read(self._env_id[index], self._serials[index])

    def _lazy(self, stacks: StackedFrames) -> list[LazyFrames]:
        found = []
        for numbers in stacks.numbers.tolist():
            frames = []
            for number in numbers:
                chunk = next(each for each in stacks.chunks if each.first <= number < each.end)
                frames.append(Frame(chunk.frames[number - chunk.first]))
                frames[-1].number, frames[-1].chunk = number, chunk
            found.append(LazyFrames((*frames,)))
        return found
