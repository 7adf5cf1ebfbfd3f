"""Frame stacks whose frames are shared: a wrapper, its observations and their space.

Shapes: k frames; `...` one frame.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict

from dicore.data import Info, Tree
from dicore_plugins.frames import ArrayLike, Chunk

if TYPE_CHECKING:
    from dicore.interfaces.env import Env, Space

__all__ = ["Frame", "LazyFrameStack", "LazyFrames", "StackedBox"]


class Frame:
    """One frame, which several stacks share.

    Args:
        array: The frame.

    Attributes:
        array: As passed, or the frame in `chunk`.
        number: Number of the frame once it is in a chunk, else -1; see `frames.FrameWriter`.
        chunk: That chunk.
    """

    __slots__ = ("__weakref__", "array", "chunk", "number", "token")

    def __init__(self, array: Tree) -> None:
        self.array = array
        self.number = -1
        self.chunk: Chunk | None = None
        self.token: str | None = None

    def __reduce__(self) -> tuple[object, ...]:
        if self.token is None:
            self.token = f"{_PROCESS}.{next(_TOKENS)}"
            _KNOWN[self.token] = self
        return _frame, (self.token, np.asarray(self.array))


_PROCESS, _TOKENS = secrets.token_hex(8), count()
_KNOWN: WeakValueDictionary[str, Frame] = WeakValueDictionary()


def _frame(token: str, array: Tree) -> Frame:
    """Returns the frame of a token, so that a frame that is received twice stays one."""
    frame = _KNOWN.get(token)
    if frame is None:
        frame = _KNOWN[token] = Frame(array)
        frame.token = token
    return frame


class LazyFrames(ArrayLike):
    """One frame stack [k, ...]; NumPy sees it as an array, which is made when it is needed.

    Args:
        frames: The k frames, the oldest first.
    """

    __slots__ = ("frames",)

    def __init__(self, frames: tuple[Frame, ...]) -> None:
        self.frames = frames

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.frames), *np.shape(self.frames[0].array))

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.asarray(self.frames[0].array).dtype

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, index: Tree) -> Tree:
        return np.asarray(self)[index]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("lazy frames become an array only by copying them")
        return np.array([frame.array for frame in self.frames], dtype)

    def __reduce__(self) -> tuple[object, ...]:
        return LazyFrames, (self.frames,)


class StackedBox(Box):
    """Space of frame stacks [k, ...] that share frames.

    Args:
        frame: Space of one frame.
        depth: k.
    """

    def __init__(self, frame: Box, depth: int) -> None:
        low, high = (np.repeat(bound[None], depth, 0) for bound in (frame.low, frame.high))
        super().__init__(low, high, dtype=frame.dtype.type)
        self.frame = frame

    def contains(self, x: object) -> bool:
        """Returns whether an array or `LazyFrames` is in the space."""
        return super().contains(np.asarray(x) if isinstance(x, LazyFrames) else x)


class LazyFrameStack(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Stacks the last k frames, padded with the first frame after a reset, without copying them.

    Args:
        env: Observations are arrays, or a dict of arrays.
        depth: k.
        keys: Keys of a dict observation to stack; None: all.
    """

    def __init__(self, env: Env, depth: int, keys: list[str] | None = None) -> None:
        super().__init__(env)
        space: Any = env.observation_space
        self._depth = depth
        self._keys: list[str] | None = None
        if isinstance(space, Dict):
            parts: dict[str, Any] = space.spaces
            self._keys = list(parts) if keys is None else list(keys)
            stacked = {key: StackedBox(parts[key], depth) for key in self._keys}
            self.observation_space: Space = Dict({**space.spaces, **stacked})
        else:
            self.observation_space = StackedBox(space, depth)
        self._stacks: dict[str, tuple[Frame, ...]] = {}

    def reset(self, **kwargs: Any) -> tuple[Tree, Info]:
        obs, info = self.env.reset(**kwargs)
        self._stacks.clear()
        return self._shown(obs), info

    def step(self, action: Tree) -> tuple[Tree, Tree, bool, bool, Info]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._shown(obs), reward, terminated, truncated, info

    def _shown(self, obs: Tree) -> Tree:
        if self._keys is None:
            return self._stack("", obs)
        parts: Mapping[str, Any] = obs
        return {**parts, **{key: self._stack(key, parts[key]) for key in self._keys}}

    def _stack(self, key: str, array: Tree) -> LazyFrames:
        own = array.copy() if array.__class__ is np.ndarray else array
        frame = Frame(own)  # the next step may write the same array
        before = self._stacks.get(key)
        frames = (frame,) * self._depth if before is None else (*before[1:], frame)
        self._stacks[key] = frames
        return LazyFrames(frames)
