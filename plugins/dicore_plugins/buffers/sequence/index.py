"""Finds the sequences among the steps that a ring holds, and keeps their recurrent states.

Shapes: N steps pushed, B sequences, L steps of a sequence, C slots of the ring, S streams, R stored
states, `...` one state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import optree

from dicore.data import Batch, State, StateDict, Tree, tree_map
from dicore_plugins.buffers.base import stored
from dicore_plugins.buffers.continuity import EnvRows
from dicore_plugins.buffers.memory import Fact, check_memory, verdict
from dicore_plugins.buffers.ring import IntArray, Schema

__all__ = ["SequenceIndex", "StoredStates"]

BoolArray = npt.NDArray[np.bool_]
Slots = npt.NDArray[np.int32]

_MANY = 64
"""Environments that are remembered even if none of their steps is stored."""

_FIRST = 64
"""States for which there is memory in the beginning."""

ENTRIES = (
    *("form", "lengths", "first", "stream", "position", "starts"),
    *("env_id", "rows", "head", "tail", "begin", "fresh"),
)
"""What the state of an index has."""


class SequenceIndex:
    """Where sequences begin, how long they are, and in which slots their steps are.

    The steps of an environment form a stream, cut into episodes. Sequences begin at the first step
    of an episode and every `stride` steps after it. A sequence exists from the push of its last
    step until its first step is overwritten.

    Args:
        capacity: C.
        length: L.
        stride: Steps between the starts of two sequences of an episode.
        padding: The last steps of an episode form a shorter sequence; "all": even if others have
            all of them, so that sequences begin up to the last step.

    Attributes:
        count: Number of sequences.
        lengths: int32 [C]; steps of the sequence that begins in a slot, 0: none begins there.
        first: bool [C]; the slot has the first step of an episode.
    """

    def __init__(self, capacity: int, length: int, stride: int, *, padding: bool | str) -> None:
        self._capacity = capacity
        self._length, self._stride, self._padding = length, stride, padding
        self._offsets = np.arange(length)
        self._of: EnvRows | None = None
        self._since: tuple[IntArray, IntArray] = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.clear()

    def clear(self) -> None:
        """Forgets all steps; the next step of an environment counts as the first of an episode."""
        capacity = self._capacity
        self.count = 0
        self.lengths: Slots = np.zeros(capacity, np.int32)
        self.first: BoolArray = np.zeros(capacity, np.bool_)
        self._starts: IntArray = np.zeros(capacity, np.int64)
        self._place: Slots = np.full(capacity, -1, np.int32)
        self._stream: Slots = np.full(capacity, -1, np.int32)
        self._position: IntArray = np.zeros(capacity, np.int64)
        self._rows: dict[int, int] = {}
        self._head, self._tail, self._begin = (np.zeros(0, np.int64) for _ in range(3))
        self._fresh: BoolArray = np.zeros(0, np.bool_)
        self._log: IntArray = np.zeros((0, 16), np.int64)

    # ---- writing

    def push(
        self, slots: IntArray, env_id: IntArray, end: BoolArray, breaks: BoolArray | None = None
    ) -> tuple[IntArray, IntArray]:
        """Adds steps, those of an environment in the order of time.

        Args:
            slots: int64 [n] of the last n = min(N, C) steps; those before them are not stored.
            env_id: int64 [N].
            end: bool [N]; the last step of an episode.
            breaks: bool [N]; the step does not follow the one before it.

        Returns:
            The slots in which sequences began that are now gone, and those of new sequences.
        """
        by_env = self._of = EnvRows.of(env_id, self._of)
        order, opens, closes = by_env.order, by_env.opens, by_env.closes
        stream, end = self._streams(by_env.ids)[by_env.inverse][order], end[order]
        position = self._head[stream] + by_env.rank
        starts = np.zeros(len(order), np.bool_)
        starts[1:] = end[:-1]
        starts[opens] = self._fresh[stream[opens]]
        if breaks is not None:
            starts |= breaks[order]
        last = np.maximum.accumulate(np.where(opens | starts, np.arange(len(order)), 0))
        begin = np.where(starts[last], position[last], self._begin[stream])
        self._since = order, position - begin
        gone = self._forget(slots)
        kept: Any = slice(None)
        if len(slots) == len(order):
            into = slots[order]
        else:
            kept = order >= len(order) - len(slots)
            into = slots[order[kept] - (len(order) - len(slots))]
            np.maximum.at(self._tail, stream[~kept], position[~kept] + 1)
        ended = stream[closes]
        self._head[ended] = position[closes] + 1
        self._begin[ended] = begin[closes]
        self._fresh[ended] = end[closes]
        self._stream[into] = stream[kept]
        self._position[into] = position[kept]
        self.first[into] = (position == begin)[kept]
        self._write_log(into)
        new = self._add_sequences(stream, position, begin, end)
        return gone, new

    def since_begin(self) -> IntArray:
        """Returns how many steps of its episode precede each step of the last push: int64 [N]."""
        order, since = self._since
        found = np.empty(len(order), np.int64)
        found[order] = since
        return found

    def _streams(self, ids: IntArray) -> IntArray:
        """Returns the streams of environments, which are made if they are new: int64 [K]."""
        known = ids.tolist()
        new = [each for each in known if each not in self._rows]
        if new:
            self._open(new, self._rows.keys() & set(known))
        return np.array([self._rows[each] for each in known], np.int64)

    def _open(self, env_ids: list[int], others: set[int]) -> None:
        """Makes streams for new environments; of many, those without stored steps are given up."""
        if len(self._rows) >= _MANY:
            self._rows = {
                each: row
                for each, row in self._rows.items()
                if each in others or self._head[row] > self._tail[row]
            }
        used = {*self._rows.values()}
        free = [row for row in range(len(self._head)) if row not in used]
        more = max(0, len(env_ids) - len(free))
        if more:
            free += range(len(self._head), len(self._head) + more)
            zeros = np.zeros(more, np.int64)
            self._head = np.concatenate([self._head, zeros])
            self._tail = np.concatenate([self._tail, zeros])
            self._begin = np.concatenate([self._begin, zeros])
            self._fresh = np.concatenate([self._fresh, zeros > 0])
            log = np.zeros((more, self._log.shape[1]), np.int64)
            self._log = np.concatenate([self._log, log])
        for each, row in zip(env_ids, free, strict=False):
            self._rows[each] = row
            self._fresh[row] = True

    def _forget(self, slots: IntArray) -> IntArray:
        """Removes the steps in slots; returns the slots in which sequences began."""
        held = slots[self._stream[slots] >= 0]
        np.maximum.at(self._tail, self._stream[held], self._position[held] + 1)
        gone = held[self.lengths[held] > 0]
        self.lengths[gone] = 0
        if len(gone):
            self.count -= len(gone)
            places, tail = self._place[gone], self._starts[self.count : self.count + len(gone)]
            self._place[gone] = -1
            moved = tail[self._place[tail] >= 0]
            holes = places[places < self.count]
            self._starts[holes], self._place[moved] = moved, holes
        return gone

    def _write_log(self, slots: IntArray) -> None:
        """Writes where the steps in slots are; makes room if a stream needs more."""
        most, width = int((self._head - self._tail).max(initial=0)), self._log.shape[1]
        if most > width:
            width = 1 << (most - 1).bit_length()
            self._log = np.zeros((len(self._head), width), np.int64)
            slots = np.flatnonzero(self._stream >= 0)
        self._log[self._stream[slots], self._position[slots] & (width - 1)] = slots

    def _add_sequences(
        self, stream: IntArray, position: IntArray, begin: IntArray, end: BoolArray
    ) -> IntArray:
        """Adds the sequences that the new steps complete; returns the slots of their first."""
        surplus = position - begin + 1 - self._length
        full = np.flatnonzero((surplus >= 0) & (surplus % self._stride == 0))
        if not len(full) and not (self._padding and end.any()):
            return full
        streams, starts = [stream[full]], [begin[full] + surplus[full]]
        lengths = [np.full(len(full), self._length)]
        if self._padding:
            for row in np.flatnonzero(end).tolist():
                count = self._length + int(surplus[row])
                short = self._short_starts(count)
                streams.append(np.full(len(short), stream[row]))
                starts.append(begin[row] + short)
                lengths.append(count - short)
        of, at, steps = (np.concatenate(each) for each in (streams, starts, lengths))
        stored = at >= self._tail[of]
        if not stored.all():
            of, at, steps = of[stored], at[stored], steps[stored]
        slots: IntArray = self._log[of, at & (self._log.shape[1] - 1)]
        self.lengths[slots] = steps
        places = np.arange(self.count, self.count + len(slots))
        self._starts[places], self._place[slots] = slots, places
        self.count += len(slots)
        return slots

    def _short_starts(self, steps: int) -> IntArray:
        """Returns where sequences begin that do not fit into an episode.

        They have steps of their own, except with the padding "all".

        Args:
            steps: Of the whole episode.
        """
        stride, length = self._stride, self._length
        first = max(0, (steps - length) // stride + 1)
        starts = np.arange(first * stride, steps, stride)
        own = (starts == 0) | (starts + length - stride < steps) | (self._padding == "all")
        found: IntArray = starts[own]
        return found

    # ---- reading

    @property
    def starts(self) -> IntArray:
        """The slots of the first steps of all sequences, in an order of no meaning: [count]."""
        return self._starts[: self.count].copy()

    def chosen(self, numbers: IntArray) -> IntArray:
        """Returns the slots of the first steps of sequences by their number, below `count`."""
        return self._starts.take(numbers)

    def slots_of(self, starts: IntArray) -> IntArray:
        """Returns the slots of the steps of sequences; after its end, a sequence repeats its last.

        Args:
            starts: int64 [B], the slots of their first steps.

        Returns:
            int64 [B, L].
        """
        width = self._log.shape[1]
        at = self._position[starts][:, None] + self.steps(self.lengths[starts])
        at &= width - 1
        at += (self._stream[starts].astype(np.int64) * width)[:, None]
        slots: IntArray = self._log.reshape(-1).take(at)
        return slots

    def steps(self, lengths: Slots) -> Any:
        """Returns 0, 1, … as int64 [L] or [B, L], never above the last step of a sequence."""
        if lengths.min(initial=self._length) == self._length:
            return self._offsets
        return np.minimum(self._offsets, lengths.astype(np.int64)[:, None] - 1)

    # ---- state

    def state_dict(self, held: int) -> StateDict:
        """Returns the index of the first `held` slots, which are all that are stored."""
        return {
            "form": [self._length, self._stride, (False, True, "all").index(self._padding)],
            "lengths": self.lengths[:held],
            "first": self.first[:held],
            "stream": self._stream[:held],
            "position": self._position[:held],
            "starts": self._starts[: self.count],
            "env_id": np.array([*self._rows], np.int64),
            "rows": np.array([*self._rows.values()], np.int64),
            "head": self._head,
            "tail": self._tail,
            "begin": self._begin,
            "fresh": self._fresh,
        }

    def load_state_dict(self, state: State, shift: int) -> None:
        """Restores what `state_dict` returned.

        Args:
            state: Of an index of the same sequences.
            shift: The step of slot `shift` is now in slot 0, and so on around.
        """
        self.clear()
        held = len(state["lengths"])
        for target, key in (
            (self.lengths, "lengths"),
            (self.first, "first"),
            (self._stream, "stream"),
            (self._position, "position"),
        ):
            target[:held] = np.roll(np.asarray(state[key]), -shift)
        starts = np.asarray(state["starts"], np.int64)
        self.count = len(starts)
        self._starts[: self.count] = (starts - shift) % held if held else starts
        self._place[self._starts[: self.count]] = np.arange(self.count)
        ids, rows = np.asarray(state["env_id"]), np.asarray(state["rows"])
        self._rows = dict(zip(ids.tolist(), rows.tolist(), strict=True))
        self._head, self._tail, self._begin = (
            np.array(state[key], np.int64) for key in ("head", "tail", "begin")
        )
        self._fresh = np.array(state["fresh"], np.bool_)
        self._log = np.zeros((len(self._head), 16), np.int64)
        self._write_log(np.arange(held))

    def check_valid(self, held: int) -> tuple[bool, str]:
        """Returns whether sequences are of steps of one episode that are stored, or why not.

        Args:
            held: Number of stored steps, in the first slots.
        """
        return verdict(self._facts(held))

    def _facts(self, held: int) -> Iterator[Fact]:
        starts, at = self.starts, np.flatnonzero(self._stream >= 0)
        yield np.array_equal(at, np.arange(held)), f"{len(at)} of {held} steps are in a stream"
        begun = np.flatnonzero(self.lengths)
        yield (np.array_equal(np.sort(starts), begun), "the list of sequences is not complete")
        place = self._place[starts]
        yield np.array_equal(place, np.arange(self.count)), "a sequence is not where it is listed"
        yield (self._stream[at] < len(self._head)).all(), "a step is in a stream that there is not"
        yield (self._tail <= self._head).all(), "a stream ends before it begins"
        inside = int((self._head - self._tail).sum())
        yield inside == held, f"the streams have {inside} steps of {held}"
        width = self._log.shape[1]
        logged = self._log[self._stream[at], self._position[at] & (width - 1)]
        yield np.array_equal(logged, at), "a step is not where its stream has it"
        lengths = self.lengths[starts]
        yield lengths.max(initial=0) <= self._length, "a sequence is too long"
        last = self._position[starts] + lengths - 1
        yield (last < self._head[self._stream[starts]]).all(), "a sequence has steps to come"
        crossing = self.first[self.slots_of(starts)[:, 1:]].any(1) & (lengths > 1)
        where = starts[crossing][:1]
        yield not crossing.any(), f"the sequence in slot {where} crosses the end of an episode"


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
        self.schema = Schema()
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
        self.schema.check(states)
        if self._columns is None:
            size = self.schema.sample_bytes
            check_memory(size * math.ceil(self._capacity / self.every), self._capacity)

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

    def write(self, slots: IntArray, values: Mapping[str, npt.NDArray[Any]]) -> None:
        """Replaces the states of steps, those that are kept; values [n, ...] by dotted paths."""
        rows = self._row[slots]
        for path, leaf in zip(self.schema.paths, optree.tree_leaves(self._columns), strict=False):
            if path in values:
                leaf[rows[rows >= 0]] = values[path][rows >= 0]

    def _grow(self, count: int) -> None:
        """Makes room for `count` more states."""
        missing = count - len(self._free)
        if missing <= 0:
            return
        held = self._room
        self._room = max(min(max(2 * held, _FIRST), self._capacity), held + missing)
        self._free += range(self._room - 1, held - 1, -1)
        if self._columns is None:
            forms = self.schema.forms
            leaves = [np.empty((self._room, *shape), dtype) for shape, dtype in forms]
            self._columns = self.schema.tree(leaves)
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

    def check_valid(self, held: int) -> tuple[bool, str]:
        """Returns whether stored steps have states of their own, or why not."""
        rows = self._row[self._row >= 0]
        used = len(np.unique(rows)) + len(self._free)
        facts = (
            (not (self._row[held:] >= 0).any(), "a step that is not stored has a state"),
            (len(np.unique(rows)) == len(rows), "two steps have the same state"),
            (used == self._room, f"{used} of {self._room} states are in use or free"),
            (not np.isin(self._free, rows).any(), "the state of a step counts as free"),
        )
        return verdict(facts)

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
