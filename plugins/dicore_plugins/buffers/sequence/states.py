"""Recurrent states of the steps at which sequences may begin.

Shapes: N steps pushed, B sequences, C slots of the ring, R stored states, `...` one state.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dicore.data import Batch, State, StateDict, Tree, tree_map
from dicore_plugins.buffers.base import stored
from dicore_plugins.buffers.memory import check_memory
from dicore_plugins.buffers.ring import IntArray, Ring

__all__ = ["StoredStates"]

_FIRST = 64
"""States for which there is memory in the beginning."""


class StoredStates:
    """Keeps one recurrent state of every `every` steps of an episode, beginning with its first.

    Memory grows with the number of states that are kept at the same time: C / every for long
    episodes.

    Args:
        capacity: C.
        stride: Steps between the starts of two sequences of an episode.
        state_every: Steps between the states of a sequence; 0: only the first is needed.
    """

    def __init__(self, capacity: int, stride: int, state_every: int) -> None:
        self.every = math.gcd(stride, state_every)
        self._capacity = capacity
        self.clear()

    def clear(self) -> None:
        """Forgets all states and their form."""
        self._form = Ring(1)
        self._row: npt.NDArray[np.int32] = np.full(self._capacity, -1, np.int32)
        self._free: list[int] = []
        self._columns: Tree = None
        self._room = 0

    def check(self, states: Batch) -> None:
        """Checks states before they are stored.

        Raises:
            SchemaError: keys, dtypes or shapes differ from those of the first ones.
            ReplayCapacityError: the states of long episodes alone exceed the available memory.
        """
        self._form._check(states)  # noqa: SLF001 - a ring of one state, for its check
        if self._columns is None:
            size = sum(store.dtype.itemsize * math.prod(store.shape[1:]) for store in self._leaves)
            check_memory(size * math.ceil(self._capacity / self.every), self._capacity)

    @property
    def _leaves(self) -> list[Any]:
        return self._form._stores  # noqa: SLF001 - of our own ring

    def push(self, slots: IntArray, states: Batch, since: IntArray) -> None:
        """Stores the states of steps, those that are needed.

        Args:
            slots: int64 [n] of the last n = min(N, C) steps.
            states: Columns [n, ...].
            since: int64 [n]; steps since the first one of the episode.
        """
        before = self._row[slots]
        self._free += before[before >= 0].tolist()
        self._row[slots] = -1
        kept = np.flatnonzero(since % self.every == 0)
        if not len(kept):
            return
        self._grow(len(kept))
        rows = np.array([self._free.pop() for _ in range(len(kept))], np.int64)
        self._row[slots[kept]] = rows

        def write(column: Tree, leaf: Tree) -> Any:
            column[rows] = stored(leaf)[kept]
            return column

        tree_map(write, self._columns, dict(states.columns))

    def _grow(self, count: int) -> None:
        """Makes room for `count` more states."""
        missing = count - len(self._free)
        if missing <= 0:
            return
        held = self._room
        self._room = max(min(max(2 * held, _FIRST), self._capacity), held + missing)
        self._free += range(self._room - 1, held - 1, -1)
        if self._columns is None:
            leaves = [np.empty((self._room, *x.shape[1:]), x.dtype) for x in self._leaves]
            self._columns = self._form._tree(leaves)  # noqa: SLF001 - of our own ring
        else:
            self._columns = tree_map(lambda leaf: _longer(leaf, self._room), self._columns)

    def of(self, slots: IntArray) -> dict[str, Tree]:
        """Returns the states of steps [B, ...]; zeros where none is kept."""
        rows = self._row[slots]

        def taken(leaf: Tree) -> Any:
            found = leaf.take(np.maximum(rows, 0), 0)
            found[rows < 0] = 0
            return found

        found: dict[str, Tree] = tree_map(taken, self._columns)
        return found

    def state_dict(self, held: int) -> StateDict:
        """Returns the states of the first `held` slots, which are all that are stored."""
        row = self._row[:held]
        kept = np.flatnonzero(row >= 0)
        columns = {} if self._columns is None else tree_map(lambda x: x[row[kept]], self._columns)
        return {"slots": kept, "kept_columns": columns}

    def load_state_dict(self, state: State, shift: int, held: int) -> None:
        """Restores what `state_dict` returned; `shift` as for `SequenceIndex`."""
        self.clear()
        slots = np.asarray(state["slots"], np.int64)
        if len(slots):
            states = Batch(tree_map(np.asarray, dict(state["kept_columns"])), len(slots))
            self.check(states)
            self.push((slots - shift) % held, states, np.zeros(len(slots), np.int64))


def _longer(leaf: Tree, size: int) -> Any:
    grown = np.empty((size, *leaf.shape[1:]), leaf.dtype)
    grown[: len(leaf)] = leaf
    return grown
