"""Checks of recorded steps: they fit the spaces, and all numbers are finite."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from dicore.data import Tree
from dicore.data.tree import Array
from dicore.errors import ActionError, NonFiniteError
from dicore_plugins.datasets.recording import Recording, fail, leaves

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

__all__ = ["check_recording"]

_LOG = logging.getLogger("dicore.data")
_PART = 8 << 20
"""Bytes of a column that are looked at together."""
_SLACK = 1e-4
"""Rounding by which an action may exceed its bounds, as a part of their size."""


def check_recording(recording: Recording, observation_space: Space, action_space: Space) -> None:
    """Checks shapes, dtypes and values of all steps.

    Args:
        recording: The steps.
        observation_space: What observations must fit; None: any.
        action_space: What actions must fit; None: any.

    Raises:
        SchemaError: columns have other shapes or keys than the spaces.
        ActionError: an action is outside its space.
        NonFiniteError: a number is NaN or infinite.
    """
    keys = recording.keys
    obs = {"obs": recording.obs}
    if recording.next_obs is not recording.obs:
        obs["next_obs"] = recording.next_obs
    for name, tree in obs.items():
        _check_form(recording, tree, observation_space, keys.get(name, name))
        _check_range(recording, tree, observation_space, keys.get(name, name))
    _check_form(recording, recording.columns["action"], action_space, keys.get("action", "action"))
    bad = np.flatnonzero(~np.isfinite(recording.reward))
    if len(bad):
        _not_finite(recording, int(bad[0]), keys.get("reward", "reward"), recording.reward[bad[0]])
    for name, tree in {**obs, **recording.columns}.items():
        rows = recording.obs_row if name == "obs" else recording.row
        for key, leaf in leaves(tree, keys.get(name, name)):
            _check_finite(recording, leaf, rows, key)
    _check_actions(recording, recording.columns["action"], action_space)
    _warn_of_bounds(recording, observation_space)


def _check_form(recording: Recording, tree: Tree, space: Any, key: str) -> None:
    """Checks keys, shapes and kinds of dtypes of a column against a space."""
    if space is None:
        return
    if isinstance(space, spaces.Dict):
        has = sorted(tree) if isinstance(tree, dict) else f"an array {list(tree.shape[1:])}"
        if has != sorted(space.spaces):
            _other(recording, key, f"has {has}, the environment {sorted(space.spaces)}")
        for name, below in space.spaces.items():
            _check_form(recording, tree[name], below, f"{key}/{name}")
        return
    if isinstance(tree, dict):
        _other(recording, key, f"has {sorted(tree)}, the environment {space}")
    if space.shape is None or space.dtype is None:
        return
    if tuple(tree.shape[1:]) != tuple(space.shape):
        _other(
            recording, key, f"has the shape {list(tree.shape[1:])}, the environment"
            f" {list(space.shape)}",
        )  # fmt: skip
    integers = np.issubdtype(space.dtype, np.integer)
    if integers and not np.issubdtype(tree.dtype, np.integer) and tree.dtype != np.bool_:
        _other(recording, key, f"has the dtype {tree.dtype}, the environment {space.dtype}")


def _check_range(recording: Recording, tree: Tree, space: Space, key: str) -> None:
    """Checks that integers fit into the dtype of the space, in which samples have them."""
    if isinstance(space, spaces.Dict):
        for name, below in space.spaces.items():
            _check_range(recording, tree[name], below, f"{key}/{name}")
        return
    dtype = getattr(space, "dtype", None)
    if dtype is None or dtype.kind not in "iu" or np.can_cast(tree.dtype, dtype):
        return
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    for start, part in _parts(tree):
        wrong = np.argwhere((part < least) | (part > most))
        if len(wrong):
            row, *at = wrong[0]
            _other(recording, key, f"{part[row, *at]} in row {start + row} is not {dtype}")


def _other(recording: Recording, key: str, problem: str) -> None:
    fail(
        recording.file,
        f"{problem}: data of another environment",
        key=key,
        episode=int(recording.episode[0]),
        hint="train in the environment, with the wrappers, that the data set was collected in",
    )


def _parts(leaf: Tree) -> Iterator[tuple[int, Array]]:
    """Yields a column in parts, each with the number of its first row."""
    count = max(1, _PART // max(1, leaf.dtype.itemsize * int(np.prod(leaf.shape[1:]))))
    for start in range(0, len(leaf), count):
        yield start, np.asarray(leaf[start : start + count])


def _check_finite(recording: Recording, leaf: Tree, rows: Array, key: str) -> None:
    if not np.issubdtype(leaf.dtype, np.floating) or hasattr(leaf, "packed"):
        return
    for start, part in _parts(leaf):
        good = np.isfinite(part)
        if leaf.dtype == np.float64:  # stored as float32
            good &= np.abs(part) < np.finfo(np.float32).max
        if not good.all():
            row, *at = np.argwhere(~good)[0]
            _not_finite(recording, _step_of(rows, start + int(row)), key, part[row, *at])


def _step_of(rows: Array, row: int) -> int:
    """Returns the first step that has a row, or the one before it."""
    found = np.flatnonzero(rows == row)
    return int(found[0]) if len(found) else max(0, int(np.count_nonzero(rows < row)) - 1)


def _not_finite(recording: Recording, step: int, key: str, value: Tree) -> None:
    episode = int(recording.episode[step])
    first = int(np.searchsorted(recording.episode, episode))
    fail(
        recording.file,
        f"{value} in step {step - first}",
        key=key,
        episode=episode,
        error=NonFiniteError,
        hint="remove the episode, or use another data set",
    )


def _check_actions(recording: Recording, tree: Tree, space: Space) -> None:
    """Checks that actions are within their space."""
    if isinstance(space, spaces.Dict):
        for name, below in space.spaces.items():
            _check_actions(recording, tree[name], below)
        return
    bounds = _bounds(space)
    if bounds is None:
        return
    low, high = bounds
    for start, part in _parts(tree):
        wrong = np.argwhere((part < low) | (part > high))
        if len(wrong):
            row, *at = wrong[0]
            fail(
                recording.file,
                f"action {part[row, *at]} is not in {space}",
                key=recording.keys.get("action", "action"),
                episode=int(recording.episode[_step_of(recording.row, start + int(row))]),
                error=ActionError,
                hint="train in the environment that the data set was collected in",
            )


def _bounds(space: Space) -> tuple[Array, Array] | None:
    """Returns the least and the largest values of a space; None if it has none."""
    match space:
        case spaces.Discrete():
            return space.start, space.start + space.n - 1
        case spaces.MultiDiscrete():
            return space.start, space.start + space.nvec - 1
        case spaces.Box():
            size = np.maximum(np.abs(space.low), np.abs(space.high)).astype(np.float64)
            slack = np.where(np.isfinite(size), size, 0) * _SLACK
            return space.low - slack, space.high + slack
    return None


def _warn_of_bounds(recording: Recording, space: Space) -> None:
    """Warns if observations are outside the bounds of their space."""
    below = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    for name, each in below.items():
        leaf = recording.obs[name] if name else recording.obs
        bounds = _bounds(each) if isinstance(each, spaces.Box) and each.is_bounded() else None
        if bounds is None or isinstance(leaf, dict):
            continue
        for start, part in _parts(leaf):
            wrong = np.argwhere((part < bounds[0]) | (part > bounds[1]))
            if len(wrong):
                row, *at = wrong[0]
                key = recording.keys.get("obs", "obs") + (f"/{name}" if name else "")
                _LOG.warning(
                    "%s: %s %s in row %d is outside the bounds of the environment",
                    recording.file, key, part[row, *at], start + row,
                )  # fmt: skip
                break
