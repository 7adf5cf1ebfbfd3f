"""Storage of a collector: time-major rows of transitions, and what they need to become samples.

Shapes: T steps, N environments, K of them, `...` one item.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import optree

from dicore.data import Batch, Row, State, StateDict, Tree, tree_map, tree_paths
from dicore.data.tree import is_tensor
from dicore.errors import SchemaError
from dicore.interfaces.policy import Tail

__all__ = ["Block"]

_Place: TypeAlias = tuple[str, list[tuple[str, Any]] | None, Any]
"""Key of a column, and the column, or those of a dict by their keys."""
_NO_ROWS: npt.NDArray[np.int64] = np.empty(0, np.int64)


class Block:
    """The rows of N environments, as columns [T, N, ...] that grow as needed.

    Each environment has its own number of rows. All have the same number if they are stepped
    together; then `write` is the fastest way to add a row.

    Args:
        num_envs: N.

    Attributes:
        rows: int64 [N]; rows written per environment.
        end: bool [T, N]; the last step of an episode, terminated or truncated.
        valid: bool [T, N]; False for the dropped steps of abnormal episodes.
        changed: The column `obs` is not what the environments showed.
    """

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.rows: npt.NDArray[np.int64] = np.zeros(num_envs, np.int64)
        self._carried: npt.NDArray[np.int64] = np.zeros(num_envs, np.int64)
        self._spent: int | None = None
        self.end: npt.NDArray[np.bool_] = np.zeros((0, num_envs), np.bool_)
        self.valid: npt.NDArray[np.bool_] = np.ones((0, num_envs), np.bool_)
        self._env_id = np.arange(num_envs)[None]
        self._even = True
        self.changed = False
        self._finals: list[tuple[int, int, Tree]] = []
        self._spec: Any = None
        self._leaves: list[Tree] = []  # arrays, or stacks of frames
        self._items: list[tuple[str, Any]] | None = None
        self._nested: list[_Place] | None = None
        self._order: list[int] = []
        self._forms: list[tuple[tuple[int, ...], Any]] = []

    @property
    def even(self) -> bool:
        """Whether all environments have the same number of rows."""
        if not self._even:
            self._even = bool((self.rows == self.rows[0]).all())
        return self._even

    def reserve(self, steps: int) -> None:
        """Makes room for `steps` rows."""
        if steps > len(self.end):
            self._renew(steps, int(self.rows.max()))

    def settle(self, *, recycle: bool) -> None:
        """Prepares the memory for rows after those that `advance` dropped.

        Args:
            recycle: Use the memory again, which views of the dropped rows share.
        """
        if self._spent is None:
            return
        start, keep = self._spent, int(self.rows[0])
        self._spent = None
        if recycle:
            for array in (self.end, self.valid, *self._leaves):
                array[:keep] = array[start : start + keep]
            self.valid[keep:] = True
        else:
            self._renew(len(self.end), keep, start)
        for leaf in self._leaves:
            if leaf.__class__ is not np.ndarray:
                leaf.drop_unused(keep)

    def _renew(self, steps: int, keep: int, start: int = 0) -> None:
        """Replaces the memory by new memory of `steps` rows, with `keep` rows from `start` on."""
        end, valid, leaves = self.end, self.valid, self._leaves
        if steps == len(end):
            self.end, self.valid = np.zeros(end.shape, np.bool_), np.empty_like(valid)
            self._leaves = [np.empty_like(leaf) for leaf in leaves]
        else:
            self.end = np.zeros((steps, self.num_envs), np.bool_)
            self.valid = np.empty((steps, self.num_envs), np.bool_)
            self._leaves = [np.empty_like(leaf, shape=(steps, *leaf.shape[1:])) for leaf in leaves]
        self.valid.fill(True)
        if keep:
            pairs = zip((self.end, self.valid, *self._leaves), (end, valid, *leaves), strict=True)
            for target, source in pairs:
                target[:keep] = source[start : start + keep]
        self._name_columns()

    def write(self, t: int, row: Row) -> None:
        """Writes the columns [N, ...] of row `t`; the first call fixes keys, dtypes and shapes.

        Raises:
            SchemaError: the columns differ from those of the first call.
        """
        if self._spec is None:
            self._allocate(row)
        if self._items is None or len(row) != len(self._items):
            if not self._write_nested(t, row):
                self._write_leaves(t, row)
            return
        for (key, column), (shape, dtype) in zip(self._items, self._forms):  # noqa: B905 - equal
            value: Tree = row.get(key)
            if (
                value.__class__ is column.__class__
                and value.dtype is dtype
                and value.shape == shape
            ):
                column[t] = value
            else:
                self._write_leaves(t, row)
                return

    def _write_nested(self, t: int, row: Row) -> bool:
        """Writes columns of which some are dicts of arrays; False if a form has changed."""
        if self._nested is None:
            self._nested = _places(self._leaves, self._spec)
        if not self._nested or len(row) != len(self._nested):
            return False
        try:
            for key, inner, column in self._nested:
                value: Tree = row[key]
                if inner is None:
                    if not _equal_form(value, column):
                        return False
                    column[t] = value
                    continue
                if value.__class__ is not dict or len(value) != len(inner):
                    return False
                for name, part in inner:
                    if not _equal_form(value[name], part):
                        return False
                    part[t] = value[name]
        except KeyError:
            return False
        return True

    def write_some(
        self, env_id: npt.NDArray[np.int64], row: Row, done: npt.NDArray[np.bool_]
    ) -> None:
        """Adds one row [K, ...] to K environments, each at its own place; see `write`."""
        if self._spec is None:
            self._allocate(row)
        t = self.rows[env_id]
        if int(t.max()) >= len(self.end):
            self.reserve(max(16, 2 * len(self.end)))
        self._write_leaves((t, env_id), row, len(env_id))
        self.end[t, env_id] = done
        self.valid[t, env_id] = True
        self.rows[env_id] = t + 1
        self._even = False

    def _write_leaves(self, where: Any, row: Row, count: int | None = None) -> None:
        """Writes columns of any form; values that would be cast or repeated are refused."""
        leaves, spec = optree.tree_flatten(row)
        if spec != self._spec:
            raise SchemaError(f"the transition columns changed to {sorted(row)}")
        for at, (column, leaf) in enumerate(zip(self._leaves, leaves, strict=True)):
            value = _array(leaf)
            shape = (self.num_envs if count is None else count, *column.shape[2:])
            if value.shape != shape or not np.can_cast(value.dtype, column.dtype, "same_kind"):
                raise SchemaError(
                    "the transition columns changed: expected"
                    f" {column.dtype}{list(shape)}, got {value.dtype}{list(value.shape)}",
                    hint="return the same dtypes and shapes from process_transition in every step",
                )
            if self._forms:
                self._forms[self._order.index(at)] = column.shape[1:], value.dtype
            column[where] = value

    def _allocate(self, row: Row) -> None:
        if not isinstance(row, dict):
            raise SchemaError(
                f"process_transition must return a dict of columns; got {type(row).__name__}"
            )
        leaves, self._spec = optree.tree_flatten(row)
        arrays = [_array(leaf) for leaf in leaves]
        for array in arrays:
            if array.ndim == 0 or len(array) > self.num_envs or array.dtype == object:
                raise SchemaError(
                    "process_transition must return columns of numbers with one entry per"
                    f" environment ({self.num_envs}); got {array.dtype}{list(array.shape)}"
                )
        self._leaves = [
            np.empty_like(
                array,
                np.float32 if array.dtype == np.float64 else array.dtype,
                shape=(len(self.end), self.num_envs, *array.shape[1:]),
            )
            for array in arrays
        ]
        self._flat_keys = (
            None
            if any(isinstance(value, dict | list | tuple) for value in row.values())
            else list(row)
        )
        self._name_columns()

    def _name_columns(self) -> None:
        """Sets the columns by key, in the order of the first row; None where some are nested."""
        self._nested = None
        if self._spec is None or self._flat_keys is None:
            self._items = None
            return
        if not self._order:
            ordered = sorted(self._flat_keys)
            self._order = [ordered.index(key) for key in self._flat_keys]
        leaves = self._leaves
        self._items = [
            (key, leaves[at]) for key, at in zip(self._flat_keys, self._order, strict=True)
        ]
        if not self._forms:
            self._forms = [(column.shape[1:], column.dtype) for _, column in self._items]

    def add_finals(
        self, t: Iterable[int], env_id: Iterable[int], rows: Iterable[int], obs: Tree
    ) -> None:
        """Stores copies of the observations after the rows that ended an episode.

        Args:
            t: Their rows, one per environment; those below 0 are left out.
            env_id: The environments.
            rows: Their places in `obs`.
            obs: [K, ...].
        """
        plain, finals = obs.__class__ is np.ndarray, self._finals
        for step, env, row in zip(t, env_id, rows, strict=True):
            if step < 0:
                continue
            if plain:
                finals.append((step, env, obs[row : row + 1].copy()))
            else:
                copied = tree_map(lambda leaf, i=row: np.copy(leaf[i : i + 1]), obs)
                finals.append((step, env, copied))

    def final_obs(self, env: int) -> Tree:
        """Returns the last stored final observation [1, ...] of an environment."""
        return next(obs for _, each, obs in reversed(self._finals) if each == env)

    def drop(self, t: int, env: int) -> int:
        """Marks the episode of an environment, up to row `t`, as invalid.

        The row itself becomes an end, so that no sample spans it.

        Returns:
            The first row of the episode.
        """
        ends = np.flatnonzero(self.end[:t, env])
        start = int(ends[-1]) + 1 if len(ends) else 0
        self.valid[start : t + 1, env] = False
        self.end[t, env] = True
        return start

    def together(self, rows: int, starts: int, obs: Tree) -> tuple[Batch, Tail]:
        """Returns the first `rows` rows of all environments, as views, and their tail.

        Args:
            rows: T.
            starts: Rows at which samples may begin.
            obs: Observations [N, ...] after the last row.
        """
        if len(self._env_id) != rows:
            self._env_id = np.tile(self._env_id[:1], (rows, 1))
        if rows == len(self.end) and self._items is not None:  # no views are needed
            columns = dict(self._items)
            columns |= {"end": self.end, "valid": self.valid, "env_id": self._env_id.copy()}
            block = Batch(columns, rows)
        else:
            block = self._columns(slice(0, rows), slice(None), self._env_id.copy())
        finals = [(t * self.num_envs + env, final) for t, env, final in self._finals]
        return block, self._tail(obs, finals, starts, int(self._carried[0]))

    def of_env(self, env: int, starts: int, obs: Tree) -> tuple[Batch, Tail]:
        """Returns a copy of all rows of one environment, as [T, 1, ...], and their tail.

        Args:
            env: Env id.
            starts: Rows at which samples may begin.
            obs: Observation [1, ...] after the last row.
        """
        return self.of_envs(np.array([env]), starts, obs)

    def of_envs(self, envs: npt.NDArray[np.int64], starts: int, obs: Tree) -> tuple[Batch, Tail]:
        """Returns a copy of all rows of K environments, as [T, K, ...], and their tail.

        Args:
            envs: Env ids [K], of environments with the same number of rows; see `alike`.
            starts: Rows at which samples may begin.
            obs: Observations [K, ...] after the last row.
        """
        rows, count = int(self.rows[envs[0]]), len(envs)
        # copied twice: so its memory is contiguous, and views by `reshape` can be written to
        block = self._columns(slice(0, rows), envs, np.tile(envs, (rows, 1))).copy()
        place = {env: at for at, env in enumerate(envs.tolist())}
        finals = [(t * count + place[env], obs) for t, env, obs in self._finals if env in place]
        return block, self._tail(obs, finals, starts, int(self._carried[envs[0]]))

    def alike(self, envs: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        """Returns the given environments by number of rows, those with the same one together."""
        key = self.rows[envs] * (1 + int(self._carried.max())) + self._carried[envs]
        return [envs[key == each] for each in np.unique(key)]

    def _tail(self, obs: Tree, finals: list[tuple[int, Tree]], starts: int, carried: int) -> Tail:
        if not finals:
            none = obs[:0] if obs.__class__ is np.ndarray else tree_map(lambda leaf: leaf[:0], obs)
            return Tail(obs, _NO_ROWS, none, starts, carried, self.changed)
        finals.sort(key=lambda each: each[0])
        rows, values = zip(*finals, strict=True)
        final = values[0]
        if len(values) > 1:
            plain = final.__class__ is np.ndarray
            final = _concatenated(*values) if plain else tree_map(_concatenated, *values)
        return Tail(obs, np.array(rows, np.int64), final, starts, carried, self.changed)

    def _columns(
        self, rows: slice, envs: slice | npt.NDArray[np.int64], env_id: npt.NDArray[np.int64]
    ) -> Batch:
        if self._items is not None:
            columns = {key: leaf[rows, envs] for key, leaf in self._items}
        else:
            leaves = [leaf[rows, envs] for leaf in self._leaves]
            columns = dict(optree.tree_unflatten(self._spec, leaves))
        columns |= {"end": self.end[rows, envs], "valid": self.valid[rows, envs]}
        return Batch({**columns, "env_id": env_id}, rows.stop)

    def advance(self, count: int) -> None:
        """Drops the first `count` rows of all environments, which have the same number of rows.

        Views of them stay valid until `settle`, which comes before all else.
        """
        self._spent = count
        self.rows -= count
        self._carried[:] = self.rows
        if self._finals:
            self._finals = [(t - count, env, obs) for t, env, obs in self._finals if t >= count]

    def advance_env(self, env: int | npt.NDArray[np.int64], count: int) -> None:
        """Drops the first `count` rows of one environment, or of several with as many rows."""
        envs = np.atleast_1d(env)
        rows = int(self.rows[envs[0]])
        if rows > count:
            for array in (self.end, self.valid, *self._leaves):
                array[: rows - count, envs] = array[count:rows, envs]
        self.rows[envs] = self._carried[envs] = rows - count
        self._even = False
        if self._finals:
            here = set(envs.tolist())
            self._finals = [
                (t - count if each in here else t, each, obs)
                for t, each, obs in self._finals
                if each not in here or t >= count
            ]

    def clear(self) -> None:
        """Drops all rows."""
        self.rows[:] = self._carried[:] = 0
        self._even = True
        self.valid[:] = True
        self._finals.clear()

    def state_dict(self) -> StateDict | None:
        """Returns the rows and their finals; None if there are none."""
        steps, start = int(self.rows.max()), self._spent or 0
        if not steps:
            return None
        rows = slice(start, start + steps)
        arrays = [array[rows].copy() for array in (self.end, self.valid, *self._leaves)]
        unwritten = np.arange(steps)[:, None] >= self.rows
        for array in arrays:  # else equal blocks have other states, with what the memory held
            if isinstance(array, np.ndarray):
                array[unwritten] = 0
            else:
                array.numbers[unwritten] = -1
        end, valid, *leaves = arrays
        return {
            "columns": plain_state(optree.tree_unflatten(self._spec, leaves)),
            "keys": self._flat_keys,
            "rows": self.rows.copy(),
            "carried": self._carried.copy(),
            "end": end,
            "valid": valid,
            "finals": plain_state([list(each) for each in self._finals]),
        }

    @classmethod
    def from_state(cls, state: State) -> Block:
        """Returns a block with the rows that `state_dict` returned."""
        end = np.asarray(state["end"])
        block = cls(end.shape[1])
        leaves, block._spec = optree.tree_flatten(from_plain(dict(state["columns"])))
        block._leaves = [np.copy(leaf) for leaf in leaves]
        block._flat_keys = None if state["keys"] is None else list(state["keys"])
        block.end, block.valid = end.copy(), np.asarray(state["valid"]).copy()
        block.rows, block._even = np.array(state["rows"], np.int64), False
        block._carried = np.array(state["carried"], np.int64)
        block._finals = [(int(t), int(env), obs) for t, env, obs in from_plain(state["finals"])]
        block._name_columns()
        return block

    _flat_keys: list[str] | None = None
    """Keys in the order of the first row; None where some columns are nested."""


def _array(leaf: Tree) -> Tree:
    """Returns a column as an array; tensors from any device. Stacked frames stay as they are."""
    if is_tensor(leaf):
        return leaf.detach().cpu().numpy()
    return leaf if hasattr(leaf, "__array_function__") else np.asarray(leaf)


def _places(leaves: list[Tree], spec: Any) -> list[_Place]:
    """Returns the columns of a row, and of dicts in it; none, if there are deeper ones."""
    places: list[_Place] = []
    for key, column in optree.tree_unflatten(spec, leaves).items():
        parts = list(column.items()) if isinstance(column, dict) else None
        deepest = [part for _, part in parts] if parts else [column]
        if any(isinstance(part, dict | list | tuple) for part in deepest):
            return []
        places.append((key, parts, column))
    return places


def _equal_form(value: Tree, column: Tree) -> bool:
    """Returns whether a row of a column can be written as it is."""
    return (
        value.__class__ is column.__class__
        and value.dtype == column.dtype
        and value.shape == column.shape[1:]
    )


def _concatenated(*leaves: Tree) -> Tree:
    return np.concatenate(leaves)


def plain_state(tree: Tree) -> Tree:
    """Returns a tree of columns as arrays; stacked frames are packed, each frame once."""
    return tree_map(lambda leaf: leaf.packed() if hasattr(leaf, "packed") else leaf, tree)


def from_plain(tree: Tree) -> Tree:
    """Returns what was given to `plain_state`."""
    if not any(path.endswith("stacked_frames") for path in tree_paths(tree)):
        return tree
    from dicore_plugins.frames import unpacked

    return unpacked(tree)


def joined_blocks(batches: list[Batch]) -> Batch:
    """Returns the samples of several processes one after the other, or side by side as [T, N]."""
    if np.ndim(batches[0].get("env_id")) > 1:
        first, *rest = (each.columns for each in batches)
        columns = tree_map(lambda *leaves: np.concatenate(leaves, 1), first, *rest)
        return Batch(columns, len(batches[0]))
    return Batch.concat(batches)


def obs_changed(columns: Tree, shown: Any) -> bool:
    """Returns whether the column `obs` differs from the observations, with no `next_obs` beside."""
    obs = columns.get("obs", shown)
    if obs is shown or "next_obs" in columns:
        return False
    mine, theirs = tree_paths(obs), tree_paths(shown)
    return mine.keys() != theirs.keys() or not all(
        np.array_equal(leaf.cpu() if is_tensor(leaf) else leaf, theirs[path])
        for path, leaf in mine.items()
    )
