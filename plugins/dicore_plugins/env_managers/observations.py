"""Storage of observations: one array, or one per leaf of a nested space; recycled buffers.

Shapes: K environments, `...` one observation.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections import deque
from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import array, ndarray

from dicore.errors import EnvSpaceError, NonFiniteError
from dicore.values import Tree
from dicore_plugins.env_managers.faults import Fault

if TYPE_CHECKING:
    import numpy.typing as npt

    from dicore.data.tree import Array

__all__ = ["BoundsWarning", "Fault", "Leaf", "Nested", "ObsBuffers", "obs_buffers_of", "storage_of"]

_LOG = logging.getLogger("dicore.env")

# infinity times zero, by which `Leaf.stack` finds it, is a fault that is reported as one
warnings.filterwarnings("ignore", "invalid value encountered in", RuntimeWarning, __name__)

_LARGE_BYTES = 4096
"""Size of one observation from which on buffers are recycled."""


class Leaf:
    """Stores an observation, or a part of one, that is one array.

    Args:
        path: Path in the observation, for messages; '' for the whole observation.
        shape: Of one observation.
        dtype: Of the space; float64 is stored as float32.
        low: Lower bound of the space, or None.
        high: Upper bound of the space, or None.
    """

    def __init__(
        self,
        path: str,
        shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        low: Tree = None,
        high: Tree = None,
    ) -> None:
        self.name = f"observation {path}".rstrip()
        self.path = path
        self.shape = shape
        declared = np.dtype(dtype)
        self.dtype = np.dtype(np.float32) if declared == np.float64 else declared
        self._floating = self.dtype.kind == "f"
        self._vector = len(shape) == 1
        self._bounds = None if low is None else _bounds(low, high, self.dtype)
        self._zero = self._zeros = np.zeros(int(np.prod(shape)), self.dtype)
        self._zeros_shape: tuple[int, ...] | None = None
        self.large: bool = int(np.prod(shape)) * self.dtype.itemsize >= _LARGE_BYTES

    def empty(self, count: int) -> Array:
        """Returns an uninitialised array for `count` observations."""
        return np.empty((count, *self.shape), self.dtype)

    def stack(self, obs: list[Tree], room: Array | None = None) -> Array | None:
        """Stacks K observations in the storage's dtype.

        Args:
            obs: One observation per environment, as returned by the environments.
            room: An array [K, ...] that may be overwritten.

        Returns:
            [K, ...], or None if an observation does not match the space or is not finite; see
            `fault`.
        """
        if self.large:
            block = self._fill(obs, self.empty(len(obs)) if room is None else room)
            if block is not None:
                return block if self.finite(block) else None
        try:
            block = array(obs)
        except (ValueError, TypeError, RuntimeError):
            return None
        if block.shape != self._zeros_shape:  # of another K than the last one
            if block.shape[1:] != self.shape:
                return None
            self._zeros, self._zeros_shape = np.zeros(block.size, self.dtype), block.shape
        if block.dtype is not self.dtype:
            block = self._cast(block)
            if block is None:
                return None
        if not self._floating:
            return block
        try:  # NaN and infinity times zero are NaN
            return block if isfinite(block.ravel().dot(self._zeros)) else None
        except RuntimeWarning:  # of infinity, where warnings are errors
            return None

    def stacked(self, block: Tree, count: int) -> Array | None:
        """Returns observations [K, ...] that are stacked already; None as for `stack`."""
        if block.__class__ is not ndarray or block.shape != (count, *self.shape):
            return None
        if block.dtype is not self.dtype:
            block = self._cast(block)
        return block if block is not None and self.finite(block) else None

    def _fill(self, obs: list[Tree], block: Array) -> Array | None:
        """Copies observations that match dtype and shape exactly; None if one does not."""
        for row, each in enumerate(obs):
            if each.__class__ is not ndarray or each.dtype != self.dtype:
                return None
            if each.shape != self.shape:
                return None
            block[row] = each
        return block

    def _cast(self, given: Array) -> Array | None:
        """Casts to the storage's dtype; None if the cast would lose more than precision."""
        kind, wanted = given.dtype.kind, self.dtype.kind
        if given.dtype == self.dtype:
            return given
        if wanted == "f" and kind in "fiub":
            with np.errstate(over="ignore"):
                return given.astype(self.dtype)
        if wanted in "iu" and kind in "iub":
            cast = given.astype(self.dtype)
            return cast if (cast == given).all() else None
        return None

    def finite(self, block: Array) -> bool:
        """Returns whether an array has no NaN and no infinity."""
        if not self._floating:
            return True
        if self._zeros.size != block.size:
            self._zeros, self._zeros_shape = np.zeros(block.size, self.dtype), block.shape
        try:  # as in `stack`
            return isfinite(block.ravel("K").dot(self._zeros))
        except RuntimeWarning:
            return False

    def fault(self, obs: Tree) -> Fault | None:
        """Returns why one observation is invalid, or None."""
        try:
            value = np.asarray(obs)
        except (ValueError, TypeError, RuntimeError):
            value = np.empty((), object)
        cast = None if value.shape != self.shape else self._cast(value)
        if cast is None:
            form = f"{value.dtype}{list(value.shape)}" if value.dtype != object else repr(obs)
            return Fault(
                EnvSpaceError,
                f"{self.name} is {form}, but its space is {self.dtype}{list(self.shape)}",
                {"path": self.path},
            )
        if not self._floating or np.isfinite(cast).all():
            return None
        bad = np.argwhere(~np.isfinite(cast))
        index = tuple(bad[0].tolist())
        return Fault(
            NonFiniteError,
            f"{self.name}{list(index) or ''} is {value[index]}",
            {"path": self.path, "index": index},
        )

    @property
    def bounded(self) -> bool:
        """Whether the bounds of the space exclude any number of its dtype."""
        return self._bounds is not None

    def outside(self, block: Array) -> dict[str, str]:
        """Returns a message by path if a value of [K, ...] is outside of the bounds."""
        if self._bounds is None:
            return {}
        low, high = self._bounds
        bad = np.argwhere((block < low) | (block > high))
        if not len(bad):
            return {}
        _, *index = bad[0].tolist()
        value, least, most = block[tuple(bad[0])], low[tuple(index)], high[tuple(index)]
        return {self.path: f"{self.name}{index or ''} is {value}, out of bounds {least} to {most}"}

    def try_write(self, block: Array, row: int, obs: Tree) -> bool:
        """Stores one observation; returns whether it is valid (else use `fault` and `write`)."""
        if obs.__class__ is not ndarray or obs.dtype is not self.dtype or obs.shape != self.shape:
            return False
        block[row] = obs
        if not self._floating:
            return True
        try:
            return isfinite((obs if self._vector else obs.ravel()).dot(self._zero))
        except RuntimeWarning:
            return False

    def write(self, block: Array, row: int, obs: Tree) -> None:
        """Stores one observation that `fault` found valid, with a cast."""
        block[row] = self._cast(np.asarray(obs))

    def put(self, block: Array, rows: Sequence[int], source: Array) -> None:
        """Copies [len(rows), ...] into rows of [K, ...]."""
        block[rows] = source

    def copy(self, source: Array, room: Array | None = None) -> Array:
        """Copies [K, ...], into `room` if given."""
        if room is None:
            return source.copy()
        room[...] = source
        return room

    def overwrite(self, block: Array) -> None:
        """Overwrites [K, ...] with values that are no valid observation."""
        if self._floating:
            block.fill(np.nan)
        else:
            block.fill(True if self.dtype.kind == "b" else np.iinfo(self.dtype).max)


class Nested:
    """Stores observations that are dicts or tuples, part by part.

    Args:
        parts: Storage by key; by position, for tuples.
        kind: dict or tuple.
        path: Path in the observation, for messages.
    """

    def __init__(
        self,
        parts: dict[str | int, Leaf | Nested],
        kind: type[dict[Any, Any] | tuple[Any, ...]],
        path: str,
    ) -> None:
        self._parts = parts
        self._kind: type[Any] = kind
        self._name = f"observation {path}".rstrip()
        self.path = path
        self.large: bool = any(part.large for part in parts.values())

    def _join(self, values: dict[str | int, Tree]) -> Tree:
        return values if self._kind is dict else tuple(values.values())

    def empty(self, count: int) -> Tree:
        """Returns an uninitialised array for `count` observations."""
        return self._join({key: part.empty(count) for key, part in self._parts.items()})

    def stack(self, obs: list[Tree], room: Tree = None) -> Tree:
        """Stacks K observations; see `Leaf.stack`."""
        size = len(self._parts)
        found: dict[str | int, Tree] = {}
        try:
            if any(len(each) != size for each in obs):
                return None
            for key, part in self._parts.items():
                column = part.stack(
                    [each[key] for each in obs], None if room is None else room[key]
                )
                if column is None:
                    return None
                found[key] = column
        except (TypeError, LookupError):
            return None
        return self._join(found)

    def stacked(self, block: Tree, count: int) -> Tree:
        """Returns observations that are stacked already; see `Leaf.stacked`."""
        try:
            parts = {key: part.stacked(block[key], count) for key, part in self._parts.items()}
        except (TypeError, LookupError):
            return None
        return None if any(part is None for part in parts.values()) else self._join(parts)

    def fault(self, obs: Tree) -> Fault | None:
        """Returns why one observation is invalid, or None."""
        if self._kind is dict:
            keys = set(obs) if hasattr(obs, "keys") else None
        else:
            keys = set(range(len(obs))) if isinstance(obs, list | tuple) else None
        if keys is None:
            text = (
                f"{self._name} is a {type(obs).__name__}, but its space is a {self._kind.__name__}"
            )
            return Fault(EnvSpaceError, text, {"path": self.path})
        wanted = set(self._parts)
        if keys != wanted:
            missing, extra = (sorted(each, key=str) for each in (wanted - keys, keys - wanted))
            texts = [f"missing {missing}"] * bool(missing)
            texts += [f"unexpected {extra}"] * bool(extra)
            text = f"{self._name} does not match its space: {', '.join(texts)}"
            return Fault(EnvSpaceError, text, {"path": self.path})
        faults = (part.fault(obs[key]) for key, part in self._parts.items())
        return next((fault for fault in faults if fault is not None), None)

    def outside(self, block: Tree) -> dict[str, str]:
        """Returns messages by path for values outside of the bounds."""
        found: dict[str, str] = {}
        for key, part in self._parts.items():
            found |= part.outside(block[key])
        return found

    def try_write(self, block: Tree, row: int, obs: Tree) -> bool:
        """Stores one observation; see `Leaf.try_write`."""
        if obs.__class__ is not self._kind or len(obs) != len(self._parts):
            return False
        try:
            return all(
                part.try_write(block[key], row, obs[key]) for key, part in self._parts.items()
            )
        except LookupError:
            return False

    def write(self, block: Tree, row: int, obs: Tree) -> None:
        """Stores one observation that `fault` found valid, with a cast."""
        for key, part in self._parts.items():
            part.write(block[key], row, obs[key])

    def put(self, block: Tree, rows: Sequence[int], source: Tree) -> None:
        """Copies observations into some rows."""
        for key, part in self._parts.items():
            part.put(block[key], rows, source[key])

    def copy(self, source: Tree, room: Tree = None) -> Tree:
        """Copies observations, into `room` if given."""
        return self._join({
            key: part.copy(source[key], None if room is None else room[key])
            for key, part in self._parts.items()
        })  # fmt: skip

    def overwrite(self, block: Tree) -> None:
        """Overwrites all parts; see `Leaf.overwrite`."""
        for key, part in self._parts.items():
            part.overwrite(block[key])


def _bounds(low: Tree, high: Tree, dtype: np.dtype[Any]) -> tuple[Array, Array] | None:
    """Returns bounds in the storage's dtype, or None if every number is allowed."""
    with np.errstate(over="ignore"):
        least, most = np.asarray(low).astype(dtype), np.asarray(high).astype(dtype)
    if dtype.kind == "f":
        free = bool(np.isneginf(least).all() and np.isposinf(most).all())
    elif dtype.kind == "b":
        free = True
    else:
        info = np.iinfo(dtype)
        free = bool((least == info.min).all() and (most == info.max).all())
    return None if free else (least, most)


def storage_of(space: Any, path: str = "") -> Any:
    """Returns the storage for observations of a space; a space is recognised by its class name.

    Raises:
        EnvSpaceError: a part of the space is not a space.
    """
    name = type(space).__name__
    if name == "StackedBox":
        from dicore_plugins.env_managers.stacks import StackLeaf

        whole = Leaf(path, tuple(space.shape), space.dtype, space.low, space.high)
        return StackLeaf(whole, Leaf(path, tuple(space.frame.shape), space.frame.dtype))
    if name in ("Dict", "Tuple"):
        spaces = space.spaces
        items = spaces.items() if name == "Dict" else enumerate(spaces)
        parts = {key: storage_of(part, f"{path}.{key}".lstrip(".")) for key, part in items}
        return Nested(parts, dict if name == "Dict" else tuple, path)
    if name == "Discrete":
        first = int(getattr(space, "start", 0))
        return Leaf(path, (), np.int64, first, first + int(space.n) - 1)
    dtype, shape = getattr(space, "dtype", None), getattr(space, "shape", None)
    if dtype is None or shape is None or np.dtype(dtype).kind not in "biuf":
        if hasattr(space, "contains"):
            from dicore_plugins.env_managers.objects import Objects

            return Objects(path, space)
        raise EnvSpaceError(
            f"{f'observation {path}'.rstrip()}: {space} is not a space",
            hint="set observation_space to a space of gymnasium",
            context={"path": path},
        )
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if name == "MultiBinary":
        low, high = np.zeros(shape, np.int8), np.ones(shape, np.int8)
    elif name == "MultiDiscrete":
        low = np.broadcast_to(getattr(space, "start", 0), shape)
        high = low + space.nvec - 1
    return Leaf(path, tuple(shape), dtype, low, high)


class BoundsWarning:
    """Warns, once per part of the observation, of values outside of the declared bounds."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def check(self, storage: Leaf | Nested, block: Tree) -> None:
        """Compares observations [K, ...] with the bounds of their space."""
        for path, text in storage.outside(block).items():
            if path not in self._warned:
                self._warned.add(path)
                _LOG.warning("%s", text)


class ObsBuffers:
    """Recycled blocks [N, ...] of observations, each valid until the next but one turn.

    Args:
        storage: Storage of the observations.
        env_num: N.
        debug: Return new blocks, and overwrite each with NaN (integers: the maximum) once it is no
            longer valid, so that code still holding it fails visibly.
    """

    def __init__(self, storage: Leaf | Nested, env_num: int, *, debug: bool) -> None:
        self._storage = storage
        self._env_num = env_num
        self._debug = debug
        self._reuse = storage.large and not debug
        self._blocks: list[Tree] = [None] * 4
        self._turn = 0
        self._out: deque[list[Tree]] = deque([[], []])

    def turn(self) -> None:
        """Begins a turn: blocks of two turns ago are no longer valid."""
        self._turn = 1 - self._turn
        if self._debug:
            for block in self._out.popleft():
                self._storage.overwrite(block)
            self._out.append([])

    def room(self) -> Tree:
        """Returns a block for the observations of this turn, or None: allocate one."""
        return self._block(self._turn) if self._reuse else None

    def copy(self, block: Tree) -> Tree:
        """Returns a copy of this turn's observations."""
        room = self._block(2 + self._turn) if self._reuse else None
        return self._storage.copy(block, room)

    def hand_out(self, *blocks: object) -> None:
        """Registers blocks that are returned to the caller in this turn."""
        if self._debug:
            self._out[-1].extend(blocks)

    def _block(self, index: int) -> Tree:
        if self._blocks[index] is None:
            self._blocks[index] = self._storage.empty(self._env_num)
        return self._blocks[index]


def obs_buffers_of(storage: Leaf | Nested, env_num: int, *, debug: bool) -> ObsBuffers | None:
    """Returns recycled buffers, or None for small observations.

    Allocating a small block costs no more than copying it into an existing one.
    """
    return ObsBuffers(storage, env_num, debug=debug) if storage.large or debug else None


def has_old_info(env: Any) -> bool:
    """Returns whether an environment has the older `info()`, which takes no arguments."""
    try:
        inspect.signature(env.info).bind()
    except (AttributeError, TypeError, ValueError):
        return False
    return True
