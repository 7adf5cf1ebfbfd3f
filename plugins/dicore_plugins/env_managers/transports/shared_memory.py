"""Anonymous shared memory: a place for the actions and the results of every environment.

Shapes: N environments, K of them named, `...` one observation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dicore.config.schema import ComponentConfig, frozen
from dicore.data import Tree, tree_map
from dicore.data.tree import Array
from dicore.errors import EnvSpaceError
from dicore.run.env_factory import BuildContext
from dicore_plugins.env_managers.observations import storage_of
from dicore_plugins.env_managers.transports.interface import EnvLayout, Rows

__all__ = ["SharedMemory", "SharedMemoryConfig"]

_RESET = 3
"""Buffer of the first observations of episodes, after those of steps."""
_ALIGNED = 64
_NO_MEMORY = _NONE = np.zeros(0, np.uint8)
_NUMBERS = frozenset({float, int, bool, np.float64, np.float32, np.int64, np.bool_})


class SharedMemory:
    """Columns in memory that all processes map.

    Observations [4, N, ...] have the dtype of the space (float64: float32), rewards [3, N, ...]
    are float64, flags [3, N] uint8, actions [N, ...] of the dtype of their space.

    Args:
        layout: The environments.

    Raises:
        EnvSpaceError: observations have no fixed shape.
    """

    def __init__(self, layout: EnvLayout) -> None:
        from dicore_plugins.env_managers.subprocess.channel import shared_file

        self.layout = layout
        self._file = shared_file(self._plan(_NO_MEMORY))
        self._map()

    def _plan(self, memory: npt.NDArray[np.uint8]) -> int:
        """Lays the columns out in the memory; returns the size that they need."""
        layout, count, size = self.layout, self.layout.env_num, 0

        def column(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
            nonlocal size
            start, kind = size, np.dtype(dtype)
            if kind.hasobject:
                raise EnvSpaceError(f"{layout.observation_space} has no fixed shape")
            length = int(np.prod(shape)) * kind.itemsize
            size = -(-(start + length) // _ALIGNED) * _ALIGNED
            if not len(memory):
                return np.zeros(0, kind)
            found: Array = memory[start : start + length].view(kind).reshape(shape)
            return found

        self._storage = storage_of(layout.observation_space)
        first = tree_map(lambda each: _placed(each, column), self._storage.empty(count))
        self._obs: list[object] = [first]
        for _ in range(_RESET):
            block = self._storage.empty(count)
            block = tree_map(lambda each, beside: _placed(each, column, beside), block, first)
            self._obs.append(block)
        self._rewards = column((_RESET, count, *layout.reward_shape), np.float64)
        self._ended = column((_RESET, count), np.uint8)
        form = _action_form(layout.action_space)
        self._actions = None if form is None else column((count, *form[0]), form[1])
        return size

    def _map(self) -> None:
        from dicore_plugins.env_managers.subprocess.channel import map_file

        self._plan(np.frombuffer(map_file(self._file), np.uint8))

    def __getstate__(self) -> EnvLayout:
        return self.layout

    def __setstate__(self, layout: EnvLayout) -> None:
        self.layout = layout
        self._file = -1

    def files(self) -> Sequence[int]:
        """Returns the descriptor of the memory."""
        return (self._file,)

    def attach(self, files: Sequence[int]) -> None:
        """Maps the memory in a worker."""
        (self._file,) = files
        self._map()
        self._file = -1

    def put_actions(self, rows: Rows, actions: Tree) -> bool:
        """Stores actions that are numbers or arrays."""
        if self._actions is None:
            return False
        self._actions[rows] = actions
        return True

    def actions(self, rows: Rows) -> Array:
        """Returns copies of the stored actions."""
        stored: Any = self._actions
        return np.array(stored[rows])

    def write(self, env_id: int, buffer: int, obs: Tree, reward: Tree, ended: int) -> bool:
        """Stores what has the form that the spaces declare."""
        if self.layout.reward_shape:
            reward = np.asarray(reward)
            if reward.shape != self.layout.reward_shape or reward.dtype.kind not in "fiub":
                return False
        elif reward.__class__ not in _NUMBERS:
            return False
        if not self._store(self._obs[buffer], env_id, obs):
            return False
        try:
            self._rewards[buffer, env_id] = reward
        except OverflowError:
            return False
        self._ended[buffer, env_id] = ended
        return True

    def write_reset(self, env_id: int, obs: Tree) -> bool:
        """Stores an observation that has the form that its space declares."""
        return self._store(self._obs[_RESET], env_id, obs)

    def _store(self, block: Tree, env_id: int, obs: Tree) -> bool:
        storage = self._storage
        if storage.try_write(block, env_id, obs):
            return True
        if storage.fault(obs) is not None:
            return False
        storage.write(block, env_id, obs)
        return True

    def columns(self, rows: Rows, buffer: int) -> tuple[Tree, Array] | None:
        """Returns the memory itself, or copies of some rows."""
        block, rewards = self._obs[buffer], self._rewards[buffer]
        return tree_map(lambda each: each[rows], block), np.array(rewards[rows])

    def ended(self, rows: Rows, buffer: int) -> Sequence[int]:
        """Returns the flags of environments."""
        flags: list[int] = self._ended[buffer, rows].tolist()
        return flags

    def reset_obs(self, env_id: int) -> Tree:
        """Returns a view of the first observation."""
        return tree_map(lambda each: each[env_id, ...], self._obs[_RESET])

    def close(self) -> None:
        """Closes the descriptor; the memory ends with the last array of it."""
        # garbage collection calls it, maybe while a context variable is set: before Python 3.12,
        # to set one here, as np.errstate does, would then free memory that is in use
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._obs, self._rewards, self._ended, self._actions = [], _NONE, _NONE, None

    def __del__(self) -> None:
        if getattr(self, "_file", -1) >= 0:
            self.close()


def _placed(each: Any, column: Callable[..., Any], beside: Any = None) -> Any:
    """Returns a block of a part of the observations, in shared memory."""
    if isinstance(each, np.ndarray):
        return column(each.shape, each.dtype)
    from dicore_plugins.env_managers.stacks import SharedStacks

    return SharedStacks(each.shape, each.dtype, column, beside)


def _action_form(space: Any) -> tuple[tuple[int, ...], Tree] | None:
    """Returns shape and dtype of actions that are arrays; None for others."""
    name = type(space).__name__
    if name == "Discrete":
        return (), getattr(space, "dtype", None) or np.int64
    if name in ("Box", "MultiDiscrete", "MultiBinary"):
        return tuple(space.shape), space.dtype
    return None


@frozen(kw_only=True)
class SharedMemoryConfig(ComponentConfig):
    """Exchanges data through anonymous shared memory; for spaces with a fixed shape."""

    def build(
        self, ctx: BuildContext | None, *, layout: EnvLayout, **parts: object
    ) -> SharedMemory:
        """Returns the transport.

        Raises:
            EnvSpaceError: observations have no fixed shape.
        """
        return SharedMemory(layout)
