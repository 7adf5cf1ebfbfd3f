"""How observations are stored: one array, or one per leaf of a nested space.

Shapes: K environments, `...` one observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import optree

from dicore.errors import EnvSpaceError, NonFiniteError

Array = npt.NDArray[Any]

_LARGE = 3e38
"""Squared norms below this are of finite numbers; others are looked at one by one."""


class Leaf:
    """Stores one array of the observation.

    Args:
        path: Where it is in the observation, for messages; '' if it is all of it.
        shape: Of one observation.
        dtype: As declared by the space; doubles are stored as float32.
    """

    def __init__(self, path: str, shape: tuple[int, ...], dtype: Any) -> None:
        self.path = path
        self.shape = shape
        declared = np.dtype(dtype)
        self.dtype = np.dtype(np.float32) if declared == np.float64 else declared
        self.floating = np.issubdtype(self.dtype, np.floating)
        self.nbytes = int(np.prod(shape)) * self.dtype.itemsize

    def empty(self, count: int) -> Array:
        """Makes room for `count` observations."""
        return np.empty((count, *self.shape), self.dtype)

    def write(self, block: Array, row: int, obs: Any, env_id: int) -> None:
        """Stores one observation.

        Raises:
            EnvSpaceError: its shape or kind of number is not the declared one.
        """
        if obs.__class__ is not np.ndarray or obs.dtype != self.dtype or obs.shape != self.shape:
            obs = self._convert(obs, env_id)
        block[row] = obs

    def _convert(self, obs: Any, env_id: int) -> Array:
        array = np.asarray(obs)
        same_kind = np.can_cast(array.dtype, self.dtype, "same_kind") or (
            np.issubdtype(array.dtype, np.integer) and np.issubdtype(self.dtype, np.integer)
        )
        if array.shape != self.shape or not same_kind:
            raise EnvSpaceError(
                f"env {env_id}: observation{self.path and ' ' + self.path} is"
                f" {array.dtype}{list(array.shape)}, its space says {self.dtype}{list(self.shape)}",
                hint="correct the env's observation_space, or what it returns",
                context={"env_id": env_id, "path": self.path},
            )
        with np.errstate(over="ignore"):
            return array.astype(self.dtype)

    def copy(self, source: Array, target: Array) -> None:
        """Copies observations of as many environments."""
        target[...] = source

    def check(self, block: Array, env_ids: Sequence[int]) -> None:
        """Looks for NaN and infinity, whole columns at a time.

        Raises:
            NonFiniteError: there is one; the first is named.
        """
        if not self.floating:
            return
        flat = block.ravel()
        if flat.dot(flat) < _LARGE:
            return
        bad = np.argwhere(~np.isfinite(block))
        if len(bad):
            row, *index = bad[0].tolist()
            raise NonFiniteError(
                f"env {env_ids[row]}: observation{self.path and ' ' + self.path}{index or ''} is"
                f" {block[tuple(bad[0])]}",
                hint="the env (or a wrapper) computes it; dicore check finds where",
                context={"env_id": env_ids[row], "path": self.path, "index": tuple(index)},
            )


class Nested:
    """Stores observations of dict and tuple spaces, leaf by leaf."""

    nbytes = -1  # each observation is looked at

    def __init__(self, space: Any) -> None:
        tree = _tree(space)
        paths, leaves, self._spec = optree.tree_flatten_with_path(
            tree, is_leaf=lambda node: hasattr(node, "n") or hasattr(node, "dtype")
        )
        self._leaves = [
            leaf_of(leaf, ".".join(map(str, path)))
            for path, leaf in zip(paths, leaves, strict=True)
        ]

    def empty(self, count: int) -> Any:
        """Makes room for `count` observations."""
        return optree.tree_unflatten(self._spec, [leaf.empty(count) for leaf in self._leaves])

    def write(self, block: Any, row: int, obs: Any, env_id: int) -> None:
        """Stores one observation.

        Raises:
            EnvSpaceError: its keys, shapes or kinds of numbers are not the declared ones.
        """
        try:
            values = self._spec.flatten_up_to(obs)
        except (ValueError, TypeError) as error:
            raise EnvSpaceError(
                f"env {env_id}: the observation does not have the keys of its space: {error}",
                context={"env_id": env_id},
            ) from error
        for leaf, column, value in zip(
            self._leaves, optree.tree_leaves(block), values, strict=True
        ):
            leaf.write(column, row, value, env_id)

    def copy(self, source: Any, target: Any) -> None:
        """Copies observations of as many environments."""
        for leaf, column in zip(optree.tree_leaves(target), optree.tree_leaves(source), strict=True):
            leaf[...] = column

    def check(self, block: Any, env_ids: Sequence[int]) -> None:
        """Looks for NaN and infinity.

        Raises:
            NonFiniteError: there is one; the first is named.
        """
        for leaf, column in zip(self._leaves, optree.tree_leaves(block), strict=True):
            leaf.check(column, env_ids)


def leaf_of(space: Any, path: str = "") -> Leaf:
    """Returns the storage of a space without parts.

    Raises:
        EnvSpaceError: observations of the space are not arrays of numbers.
    """
    name = type(space).__name__
    if name == "Discrete":
        return Leaf(path, (), np.int64)
    dtype, shape = getattr(space, "dtype", None), getattr(space, "shape", None)
    if dtype is None or shape is None or np.dtype(dtype) == object:
        raise EnvSpaceError(
            f"observations of {space} are not arrays of numbers",
            hint="wrap the env so that it shows arrays",
        )
    return Leaf(path, tuple(shape), dtype)


def storage_of(space: Any) -> Leaf | Nested:
    """Returns how observations of a space are stored.

    Raises:
        EnvSpaceError: some part of the space is not an array of numbers.
    """
    return Nested(space) if type(space).__name__ in ("Dict", "Tuple") else leaf_of(space)


def _tree(space: Any) -> Any:
    name = type(space).__name__
    if name == "Dict":
        return {key: _tree(part) for key, part in space.spaces.items()}
    if name == "Tuple":
        return tuple(_tree(part) for part in space.spaces)
    return space
