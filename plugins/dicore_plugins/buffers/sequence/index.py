"""Finds the sequences among the steps that a ring holds.

Shapes: N steps pushed, B sequences, L steps of a sequence, C slots of the ring, S streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dicore_plugins.buffers.continuity import EnvRows
from dicore_plugins.buffers.ring import IntArray

if TYPE_CHECKING:
    from dicore.data import State, StateDict


__all__ = ["SequenceIndex"]

BoolArray = npt.NDArray[np.bool_]
Slots = npt.NDArray[np.int32]

_MANY = 64
"""Environments that are remembered even if none of their steps is stored."""


class SequenceIndex:
    """Where sequences begin, how long they are, and in which slots their steps are.

    The steps of an environment form a stream, cut into episodes. Sequences begin at the first step
    of an episode and every `stride` steps after it. A sequence exists from the push of its last
    step until its first step is overwritten.

    Args:
        capacity: C.
        length: L.
        stride: Steps between the starts of two sequences of an episode.
        padding: The last steps of an episode form a shorter sequence.

    Attributes:
        count: Number of sequences.
        lengths: int32 [C]; steps of the sequence that begins in a slot, 0: none begins there.
        first: bool [C]; the slot has the first step of an episode.
    """

    def __init__(self, capacity: int, length: int, stride: int, *, padding: bool) -> None:
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
        """Returns where sequences begin that do not fit into an episode, but have steps of its own.

        Args:
            steps: Of the whole episode.
        """
        stride, length = self._stride, self._length
        first = max(0, (steps - length) // stride + 1)
        starts = np.arange(first * stride, steps, stride)
        found: IntArray = starts[(starts == 0) | (starts + length - stride < steps)]
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
            "form": [self._length, self._stride, int(self._padding)],
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

    def check_valid(self) -> None:
        """Raises AssertionError if the index contradicts itself; for tests."""
        begun = np.flatnonzero(self.lengths)
        assert np.array_equal(np.sort(self.starts), begun)
        assert np.array_equal(self._place[self.starts], np.arange(self.count))
        held = np.flatnonzero(self._stream >= 0)
        assert (self._tail <= self._head).all()
        assert len(held) == int((self._head - self._tail).sum())
        width = self._log.shape[1]
        found = self._log[self._stream[held], self._position[held] & (width - 1)]
        assert np.array_equal(found, held)
