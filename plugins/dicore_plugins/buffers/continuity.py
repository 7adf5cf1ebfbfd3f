"""Notices that steps are missing between two pushes of the same environment.

Shapes: N steps pushed, K environments, `...` one observation.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import numpy.typing as npt
import optree

from dicore.data import Batch, State, StateDict, Tree, tree_map
from dicore.errors import SchemaError
from dicore_plugins.buffers.base import as_array

__all__ = ["Continuity", "EnvRows", "origin"]

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_LOG = logging.getLogger("dicore.buffer")


class EnvRows:
    """The rows of a push by environment.

    Args:
        env_id: int64 [N].

    Attributes:
        env_id: A copy of it.
        ids: int64 [K]; the environments, sorted.
        order: int64 [N]; the rows, by environment and then in their order.
        opens: bool [N]; in this order, the first row of an environment.
        closes: bool [N]; in this order, the last row of an environment.
        rank: int64 [N]; in this order, the number of earlier rows of the same environment.
        inverse: int64 [N]; the place in `ids` of each row.
    """

    def __init__(self, env_id: IntArray) -> None:
        self.env_id = env_id.copy()
        self.ids, inverse = np.unique(env_id, return_inverse=True)
        self.inverse = inverse.reshape(-1)
        self.order = np.argsort(self.inverse, kind="stable")
        of, rows = self.inverse[self.order], np.arange(len(env_id))
        self.opens = np.append(True, of[1:] != of[:-1])[: len(of)]
        self.closes = np.append(self.opens[1:], True)[: len(of)]
        self.rank = rows - np.maximum.accumulate(np.where(self.opens, rows, 0))
        self.first, self.last = self.order[self.opens], self.order[self.closes]

    @classmethod
    def of(cls, env_id: IntArray, known: EnvRows | None) -> EnvRows:
        """Returns the rows by environment; `known` if they are the same, as most often."""
        same = known is not None and np.array_equal(known.env_id, env_id)
        return known if same and known is not None else cls(env_id)


class Continuity:
    """Compares the first observation of a push with the `next_obs` that was pushed before it.

    A collector leaves out steps that exceed `n_sample`, and those of episodes that failed. Without
    a column `next_obs`, steps are taken to follow each other. So are n-step samples, whose
    `next_obs` is n steps later, unless a column `bridge` says that it is one step later all the
    same.
    """

    def __init__(self) -> None:
        self._warned = False
        self._of: EnvRows | None = None
        self.clear()

    def clear(self) -> None:
        """Forgets all environments."""
        self._ids: IntArray = np.empty(0, np.int64)
        self._open: BoolArray = np.empty(0, np.bool_)
        self._last: Tree = None

    @staticmethod
    def check(steps: Batch) -> None:
        """Raises SchemaError for n-step samples, between which missing steps cannot be noticed."""
        if _hides_gaps(steps):
            raise SchemaError(
                "these are n-step samples: their next_obs is n steps later, so a sequence could"
                " span steps that are missing between two pushes",
                hint="set policy.nstep=1, or compute n-step returns when learning, as r2d2 does",
            )

    def breaks(self, steps: Batch, env_id: IntArray, end: BoolArray) -> BoolArray | None:
        """Returns which steps do not follow the last one of their environment; None: all do.

        Args:
            steps: N steps, those of an environment in the order of time.
            env_id: int64 [N].
            end: bool [N].
        """
        if _hides_gaps(steps):
            self._warn(
                "n-step samples do not tell whether steps are missing between two pushes: an"
                " episode with an abnormal part may be stored; set policy.nstep=1 to notice it"
            )
            return None
        if "next_obs" not in steps or "obs" not in steps:
            return None
        if not _alike(steps["obs"], steps["next_obs"]):
            return None
        self._of = EnvRows.of(env_id, self._of)
        ids, first, last = self._of.ids, self._of.first, self._of.last
        found = None
        if len(self._ids):
            known, at = self._places(ids)
            shown = _rows(steps["obs"], first[known])
            differs = _differ(_rows(self._last, at[known]), shown) & self._open[at[known]]
            if differs.any():
                found = np.zeros(len(env_id), np.bool_)
                found[first[known][differs]] = True
                self._warn(
                    f"steps are missing before a pushed step of env {ids[known][differs][0]}: no"
                    " sequence or episode spans the gap; collects (n_sample, random_collect_size)"
                    " that are multiples of env.collector_env_num leave none out"
                )
        self._note(ids, _rows(steps["next_obs"], last), ~end[last])
        return found

    def _places(self, ids: IntArray) -> tuple[BoolArray, IntArray]:
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return self._ids[at] == ids, at

    def _note(self, ids: IntArray, last: Tree, going: BoolArray) -> None:
        """Stores what the last steps of environments led to."""
        others = None if self._ids is ids else ~np.isin(self._ids, ids)
        if others is not None and others.any():
            ids = np.concatenate([self._ids[others], ids])
            going = np.concatenate([self._open[others], going])
            kept = _rows(self._last, np.flatnonzero(others))
            last = tree_map(lambda *leaves: np.concatenate(leaves), kept, last)
            order = np.argsort(ids)
            ids, going, last = ids[order], going[order], _rows(last, order)
        self._ids, self._open, self._last = ids, going, last

    def _warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            _LOG.warning("%s", text)

    def state_dict(self) -> StateDict:
        """Returns what the last step of each environment led to."""
        last = {} if self._last is None else {"last": tree_map(np.asarray, self._last)}
        return {"env_id": self._ids, "open": self._open, **last}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self._ids = np.array(state["env_id"], np.int64)
        self._open = np.array(state["open"], np.bool_)
        self._last = state.get("last")


def _hides_gaps(steps: Batch) -> bool:
    return "value_gamma" in steps and "bridge" not in steps


def origin(steps: Batch) -> tuple[IntArray, BoolArray | None]:
    """Returns where steps come from.

    Returns:
        `env_id` int64 [N], 0 without such a column; and `end` bool [N], or else where `done` or
        `truncated` is set; None if there is no such column [N].

    Raises:
        SchemaError: numbers of environments are no integers, or a flag is NaN.
    """
    count = len(steps)
    env_id = as_array(steps.get("env_id", np.zeros(count, np.int64)))
    if env_id.dtype.kind not in "iub":
        raise SchemaError(f"the column env_id has {env_id.dtype}; expected integers")
    keys = ("end",) if "end" in steps else ("done", "truncated")
    given = [as_array(steps[key]) for key in keys if key in steps]
    ends = [each.astype(np.bool_) for each in given if each.shape == (count,)]
    if any(each.dtype.kind == "f" and np.isnan(each).any() for each in given):
        raise SchemaError(f"the column {' or '.join(keys)} has NaN; expected False or True")
    return env_id, np.logical_or.reduce(ends) if ends else None


def _rows(tree: Tree, rows: IntArray) -> Tree:
    return tree_map(lambda leaf: _picked(leaf, rows), tree)


def _picked(leaf: Tree, rows: IntArray) -> Tree:
    return leaf[rows] if hasattr(leaf, "packed") else as_array(leaf)[rows]


def _alike(one: Tree, other: Tree) -> bool:
    """Returns whether two columns have the same leaves, of the same shapes."""
    if optree.tree_structure(one) != optree.tree_structure(other):
        return False
    pairs = zip(optree.tree_leaves(one), optree.tree_leaves(other), strict=True)
    return all(np.shape(a) == np.shape(b) for a, b in pairs)


def _differ(before: Tree, shown: Tree) -> BoolArray:
    """Returns which rows differ: bool [K]."""
    pairs = zip(optree.tree_leaves(before), optree.tree_leaves(shown), strict=True)
    found: BoolArray = np.logical_or.reduce([_differs(one, other) for one, other in pairs])
    return found


def _differs(one: Any, other: Any) -> BoolArray:
    if hasattr(one, "packed") and hasattr(other, "packed"):
        changed = one.numbers != other.numbers
        if not changed.any():
            return np.zeros(len(one), np.bool_)
    differs: npt.NDArray[Any] = np.asarray(one) != np.asarray(other)
    return np.asarray(differs.any(axis=tuple(range(1, differs.ndim))))
