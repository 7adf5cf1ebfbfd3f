"""A replay buffer of sequences of steps, each within one episode.

Shapes: N steps pushed, B sequences drawn, L steps of a sequence, `...` one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import optree

from dicore.config.compiler import as_config
from dicore.data import Batch, Columns, State, StateDict, Tree, tree_map
from dicore.errors import SchemaError, UsageError
from dicore_plugins.buffers.base import ReplayBuffer, check_draw
from dicore_plugins.buffers.continuity import Continuity, origin
from dicore_plugins.buffers.memory import Fact, check_entries, check_room
from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer
from dicore_plugins.buffers.naive.config import NaiveConfig
from dicore_plugins.buffers.priorities import Priorities, Scale, slots_of
from dicore_plugins.buffers.priority_tree import FloatArray, checked_priorities, ids_of, strata
from dicore_plugins.buffers.ring import IntArray, RecycledBatch, as_sequences
from dicore_plugins.buffers.sequence.config import SequenceConfig
from dicore_plugins.buffers.sequence.index import ENTRIES, BoolArray, SequenceIndex, StoredStates

if TYPE_CHECKING:
    from dicore_plugins.buffers.storage import Storage

__all__ = ["SequenceBuffer", "SequenceReplayBuffer"]

_FACTS = {"replay_unique_id": np.int64, "replay_buffer_idx": np.int64,
          "priority": np.float32, "IS": np.float32}  # fmt: skip


_RESERVED = ("IS", "loss_mask", "replay_buffer_idx", "replay_unique_id", "valid")


class SequenceReplayBuffer(NaiveReplayBuffer):
    """Stores steps once and samples sequences of them: L = `burn_in` + `unroll_len` columns.

    Steps are pushed with `end` bool [N] (the last step of an episode) and `env_id` int64 [N], those
    of an environment in the order of time. Without `end`, `done` or `truncated` end an episode;
    without `env_id`, all steps are of one environment. Where the first `obs` of a push is not the
    `next_obs` before it, steps are missing, and no sequence spans the gap.

    A sequence begins at the first step of an episode and every `stride` steps after it, and never
    contains steps of two episodes. A batch has the columns of the steps [B, L, ...], and

    - `valid` bool [B, L]: False after the last step of an episode; the last step is repeated there;
    - `loss_mask` float32 [B, L]: 1 for the steps to learn from. It is 0 after the end and in the
      first `burn_in` steps, unless the sequence begins with the first step of its episode, where
      the recurrent state needs no warm-up;
    - the columns `state_keys`, as they were at the first step [B, ...]; with `state_every` = k at
      the steps 0, k, 2k, … [B, ceil(L / k), ...], not after the end. They are stored for these
      steps only;
    - `priority` and `IS` float32, `replay_unique_id` and `replay_buffer_idx` int64 [B].

    With L = 1 samples are single steps [B, ...], without `valid` and `loss_mask`.

    Sequences are drawn uniformly until there are priorities: a column `priority` of the pushed
    steps, or `update` with `priority` of sequences [B] or of their steps [B, L]. Then the draws are
    in proportion to priority^alpha, and new sequences get the highest priority so far. The priority
    of a sequence is eta * max + (1 - eta) * mean of those of its steps (Kapturowski et al. 2019).

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        rng: Random generator for sampling; None: the stream `buffer`.
        log: Run log for throughput lines; None: `logging` only.
        storage: Keeps the columns of the steps; None: arrays in memory.
    """

    config_class = SequenceConfig
    state_kind = ("sequences", "sequences")
    state_entries = (
        *("columns", "cursor", "push_count", "continuity.env_id", "continuity.open"),
        *(f"sequences.{key}" for key in ENTRIES),
        *(f"priorities.{key}" for key in ("of", "highest", "draws", "in_use")),
    )
    slot_bytes = 64
    keeps_origin = True
    """Middleware pushes `end`, `env_id` and `valid` too."""

    def __init__(
        self,
        cfg: SequenceConfig | Mapping[str, Any] | None = None,
        *,
        rng: np.random.Generator | None = None,
        log: Any | None = None,
        storage: Storage | None = None,
    ) -> None:
        cfg = as_config(cfg, SequenceConfig)
        base = NaiveConfig(
            replay_buffer_size=cfg.replay_buffer_size,
            periodic_thruput_seconds=cfg.periodic_thruput_seconds,
            debug=cfg.debug,
        )
        super().__init__(base, rng=rng, log=log, storage=storage)
        self._cfg = cfg
        self._length = cfg.length
        capacity = cfg.replay_buffer_size
        stride = cfg.unroll_len if cfg.stride is None else cfg.stride
        self._index = SequenceIndex(capacity, self._length, stride, padding=cfg.padding)
        self._states = StoredStates(capacity, stride, cfg.state_every) if cfg.state_keys else None
        self._priorities = _Priorities(cfg, self._index)
        self._continuity = Continuity()

    def count(self) -> int:
        """Number of sequences that can be drawn."""
        return self._index.count

    @property
    def step_count(self) -> int:
        """Number of stored steps."""
        return self._ring.count

    @property
    def beta(self) -> float:
        """Exponent of the importance-sampling weights of the next draw."""
        return self._priorities.beta

    # ---- writing

    push = ReplayBuffer.push

    def _push(self, steps: Batch, env_step: int | None) -> range:
        count, columns, given, states = len(steps), dict(steps.columns), None, None
        taken = [key for key in _RESERVED if key in columns]
        if taken:
            raise SchemaError(
                f"the column {taken[0]} of the steps has the name of one that this buffer adds",
                hint=f"push the steps without {', '.join(taken)}",
            )
        env_id, end = self._origin(steps)
        if self._length > 1:
            self._continuity.check(steps)
        if "priority" in columns:
            given = checked_priorities(columns.pop("priority"), count)
            steps = Batch(columns, count)
        if self._states is not None:
            steps, states = self._split(steps)
            self._states.check(states)  # before anything is stored
        first, capacity = self._ring.cursor, self._ring.capacity
        ids = self._ring.push(steps)
        slots = (first + np.arange(max(0, count - capacity), count)) % capacity
        breaks = self._continuity.breaks(steps, env_id, end) if self._length > 1 else None
        gone, new = self._index.push(slots, env_id, end, breaks)
        if states is not None and self._states is not None:
            since = self._index.since_begin()
            self._states.push(slots, states[count - len(slots) :], since[count - len(slots) :])
        given = None if given is None else given[count - len(slots) :]
        self._priorities.set_steps(slots, given)
        self._priorities.place(gone, new)
        return ids

    def _origin(self, steps: Batch) -> tuple[IntArray, BoolArray]:
        """Returns env_id int64 [N] and end bool [N] of the steps."""
        count = len(steps)
        env_id, end = origin(steps)
        columns = [each for each in ("end", "env_id") if each in steps]
        odd = [each for each in columns if np.shape(steps[each]) != (count,)]
        if odd and (self._length > 1 or "env_id" in odd):
            raise SchemaError(
                f"a sequence buffer stores single steps: expected {odd[0]} [{count}], got"
                f" {list(np.shape(steps[odd[0]]))}",
                hint="return single steps from get_train_sample; the buffer 'advanced' stores"
                " sequences as they are",
            )
        return env_id, np.zeros(count, np.bool_) if end is None else end

    def _split(self, steps: Batch) -> tuple[Batch, Batch]:
        """Returns the columns of the steps, and those of the recurrent state."""
        columns = dict(steps.columns)
        missing = [key for key in self._cfg.state_keys if key not in columns]
        if missing:
            raise SchemaError(
                f"the steps have no column {', '.join(missing)} (state_keys)",
                hint=f"they have {', '.join(columns)}",
            )
        states = {key: columns.pop(key) for key in self._cfg.state_keys}
        return Batch(columns, len(steps)), Batch(states, len(steps))

    def update(self, info: Mapping[str, Any]) -> None:
        """Sets priorities of sequences; those that were overwritten are skipped.

        Args:
            info: `priority` of sequences [B] or of their steps [B, L], >= 0, with
                `replay_unique_id` [B] as drawn; arrays, tensors or lists. Priorities of steps after
                the end are not used.

        Raises:
            ReplayPriorityError: a priority is negative or not finite; nothing is changed.
            UsageError: there are no ids, or not as many as priorities.
        """
        if "priority" not in info:
            return
        if "replay_unique_id" not in info:
            raise UsageError("update needs replay_unique_id beside priority")
        number = ids_of(info["replay_unique_id"])
        given = info["priority"]
        by_step = np.ndim(given) > 1
        width = self._length if by_step else 1
        if by_step and np.shape(given) != (len(number), width):
            raise UsageError(
                f"update: expected priorities [{len(number)}, {width}] of the steps, got"
                f" {list(np.shape(given))}"
            )
        priority = checked_priorities(given, len(number) * width)
        with self._lock:
            ring, every = self._ring, self._priorities
            if not len(number):
                return
            place = ring.push_count, ring.cursor, ring.count, ring.capacity
            kernels = None if every.tree is None else every.tree.kernels
            slots = slots_of(number, *place, kernels)
            stored = (slots >= 0) & (self._index.lengths[slots] > 0)
            slots = slots[stored]
            if by_step:
                every.set(slots, every.mixed(priority.reshape(-1, width)[stored], slots))
            else:
                every.set(slots, priority[stored])

    def write(self, ids: Tree, columns: Mapping[str, Tree]) -> int:
        """Replaces columns of the first k steps of sequences; see `SupportsRewrite`.

        Of `state_keys`, the states that are stored are replaced.
        """
        from dicore_plugins.buffers.rewrite import last_of_each, values_of

        shape = np.shape(next(iter(optree.tree_leaves(dict(columns))), ()))
        width = min(shape[1], self._length) if self._length > 1 < len(shape) else 1
        own = {key: each for key, each in columns.items() if key in self._cfg.state_keys}
        rest = {key: each for key, each in columns.items() if key not in own}
        with self._lock:
            starts = self._slots_of(ids)
            starts = starts[:, None] if self._length == 1 else self._steps_of(starts, width)
            lead = starts.shape if self._length > 1 else starts.shape[:1]
            slots, values = starts.reshape(-1), values_of(self._schema, rest, lead)
            states = self._states
            stored = values_of(states.schema, own, lead) if states is not None else {}
            rows = last_of_each(slots)
            flat = {
                path: each.reshape(-1, *each.shape[len(lead) :])[rows]
                for path, each in (values | stored).items()
            }
            for path in values:
                self._ring.column(path)[slots[rows]] = flat[path]
            if states is not None:
                states.write(slots[rows], {path: flat[path] for path in stored})
            return len(np.unique(starts[starts[:, 0] >= 0, 0]))

    def _steps_of(self, starts: IntArray, width: int) -> IntArray:
        """Returns the slots of the first steps of sequences, [B, width]; -1 where there is none."""
        lengths = np.where(starts < 0, 0, self._index.lengths[starts])
        slots = np.full((len(starts), width), -1, np.int64)
        held = lengths > 0
        if held.any():
            slots[held] = self._index.slots_of(starts[held])[:, :width]
        slots[np.arange(width) >= lengths[:, None]] = -1
        return slots

    # ---- reading

    def _drawn(
        self, size: int, train_iter: int, part: slice | None, replace: bool, reuse: bool
    ) -> Batch:
        chosen = None if part is None else self._by_age()[part]
        count = self._index.count if chosen is None else len(chosen)
        if size > count or size < 1:
            check_draw(size, count, "sequences", replace=replace)
        every = self._priorities
        scale = None if every.tree is None else every.scale
        starts = every.draw(self._rng, size, chosen)
        if chosen is None and self._cfg.newest:
            newest = self._newest(min(size, self._cfg.newest))
            starts[size - len(newest) :] = newest
        self._usage.drawn(starts, self._ring.push_count)
        return self._gathered(starts, scale, reuse=reuse)

    sample_batches = ReplayBuffer.sample_batches

    def _newest(self, number: int) -> IntArray:
        """Returns the slots of the first steps of the newest sequences, the newest last."""
        span = number + self._length
        while True:
            slots = self._ring.newest(slice(-span, None))
            found = slots[self._index.lengths[slots] > 0][-number:]
            if len(found) == number or span >= self._ring.count:
                return found
            span *= 2

    def _by_age(self) -> IntArray:
        """Returns the slots of the first steps of all sequences, oldest first."""
        starts = self._index.starts
        by_age: IntArray = starts[np.argsort(self._ring.ids(starts))]
        return by_age

    def _gathered(self, starts: IntArray, scale: Scale | None, *, reuse: bool) -> Batch:
        """Returns the sequences that begin in slots."""
        count, length, index = len(starts), self._length, self._index
        slots = index.slots_of(starts) if length > 1 else starts[:, None]
        time_major = self._cfg.time_major
        flat = (slots.T if time_major else slots).reshape(-1)
        drawn = self._ring.recycled(flat, len(flat))[0] if reuse else self._ring.batch(flat)
        if length == 1:
            batch = drawn
        elif isinstance(drawn, RecycledBatch):
            batch = drawn.sequences(length, time_major=time_major)
        else:
            batch = Batch(as_sequences(drawn.columns, length, time_major=time_major), count)
        columns = batch.columns
        if self._states is not None:
            self._write_states(columns, slots)
        if "IS" not in columns:
            columns.update({key: np.empty(count, kind) for key, kind in _FACTS.items()})
            if length > 1:
                columns["valid"] = np.empty((count, length), np.bool_)
                columns["loss_mask"] = np.empty((count, length), np.float32)
        columns["replay_unique_id"][:] = self._ring.ids(starts)
        columns["replay_buffer_idx"][:] = starts
        columns["priority"][:] = self._priorities.of[starts]
        columns["IS"][:] = self._priorities.weights_of(starts, scale)
        if length > 1:
            self._mark(columns, starts)
        return batch

    def _write_states(self, columns: Columns, slots: IntArray) -> None:
        """Writes the recurrent states of sequences, into the same memory if there is any."""
        assert self._states is not None
        at = slots[:, :: self._cfg.state_every or self._length]
        states = self._states.of(at.reshape(-1))
        if self._cfg.state_every:
            states = dict(tree_map(lambda leaf: leaf.reshape(*at.shape, *leaf.shape[1:]), states))
        for key, state in states.items():
            if key not in columns:
                columns[key] = state
                continue
            for old, new in zip(
                optree.tree_leaves(columns[key]), optree.tree_leaves(state), strict=True
            ):
                old[...] = new

    def _mark(self, columns: Columns, starts: IntArray) -> None:
        """Writes `valid` and `loss_mask` of the sequences."""
        valid, index = columns["valid"], self._index
        lengths = index.lengths[starts]
        if lengths.min() == self._length:
            valid.fill(True)
            columns["loss_mask"].fill(1.0)
        else:
            np.less(np.arange(self._length), lengths.astype(np.int64)[:, None], out=valid)
            columns["loss_mask"][:] = valid
        burn_in = self._cfg.burn_in
        if burn_in:
            columns["loss_mask"][:, :burn_in] *= index.first[starts][:, None]

    # ---- state

    def clear(self) -> None:
        """Drops all steps; ids continue to rise."""
        with self._lock:
            super().clear()
            self._index.clear()
            self._continuity.clear()
            self._priorities.clear()
            if self._states is not None:
                self._states.clear()

    def _saved(self) -> StateDict:
        held = self._ring.count
        states = {} if self._states is None else {"states": self._states.state_dict(held)}
        return {
            **super()._saved(),
            "sequences": self._index.state_dict(held),
            "continuity": self._continuity.state_dict(),
            "priorities": self._priorities.state_dict(held),
            **states,
        }

    def _load(self, state: State) -> None:
        """Restores steps and sequences; a buffer of a larger capacity gets them by age."""
        self._check_form(state)
        capacity, cursor = self._ring.capacity, int(state["cursor"])
        held = len(state["priorities"]["of"])
        check_room(held, capacity, "steps")
        shift = cursor if cursor < held < capacity else 0  # as `fitted` turns the columns
        super()._load(state)
        self._index.load_state_dict(state["sequences"], shift)
        self._continuity.load_state_dict(state["continuity"])
        self._priorities.load_state_dict(state["priorities"], shift)
        if self._states is not None:
            self._states.load_state_dict(state["states"], shift, held)

    def _check_form(self, state: State) -> None:
        check_entries(state, ("states.slots",) if self._states is not None else ())
        form = [int(each) for each in state["sequences"]["form"]]
        mine = [int(each) for each in self._index.state_dict(0)["form"]]
        if form != mine or ("states" in state) != (self._states is not None):
            raise UsageError(
                f"the state has sequences of {form[0]} steps every {form[1]} (padding {form[2]});"
                f" this buffer has {mine[0]} every {mine[1]} (padding {mine[2]})",
                hint="use the options that the buffer was saved with",
            )

    def _facts(self) -> Iterator[Fact]:
        yield self._ring.check_valid()
        yield self._index.check_valid(self._ring.count)
        yield self._priorities.check_valid(self._index.starts)
        if self._states is not None:
            yield self._states.check_valid(self._ring.count)


class _Priorities(Priorities):
    """Priorities of the sequences that begin in slots, uniform until some are set.

    Args:
        cfg: Options of the buffer.
        index: Finds the sequences.
    """

    def __init__(self, cfg: SequenceConfig, index: SequenceIndex) -> None:
        super().__init__(cfg.replay_buffer_size, cfg, uniform=True)
        self._eta, self._index = cfg.eta, index
        self._of_steps: FloatArray | None = None

    def clear(self) -> None:
        """Forgets the priorities of all sequences; new ones get the highest so far."""
        self.tree = self._of_steps = None

    def mixed(self, priority: FloatArray, starts: IntArray) -> FloatArray:
        """Returns eta * max + (1 - eta) * mean of the priorities [B, L] of the steps."""
        lengths = self._index.lengths[starts]
        inside = np.arange(priority.shape[1]) < lengths[:, None]
        counted = np.where(inside, priority, 0.0)
        eta = self._eta
        mixed: FloatArray = eta * counted.max(1) + (1 - eta) * counted.sum(1) / lengths
        return mixed

    def place(self, gone: IntArray, new: IntArray) -> None:
        """Gives new sequences the highest priority so far, or that of their steps."""
        self.remove(gone)
        if not len(new):
            return
        if self._of_steps is None:
            self.add(new, self.highest)
        else:
            self._begin()
            self.add(new, self.raised(self.mixed(self._of_steps[self._index.slots_of(new)], new)))

    def set_steps(self, slots: IntArray, priority: FloatArray | None) -> None:
        """Sets the priorities of new steps [n]; None: none are given."""
        if self._of_steps is None:
            if priority is None:
                return
            self._of_steps = np.full(len(self.of), self.highest)
        self._of_steps[slots] = self.highest if priority is None else priority

    def set(self, slots: IntArray, priority: FloatArray) -> int:
        if not len(slots):
            return 0
        self._begin()
        return super().set(slots, priority)

    def _begin(self) -> None:
        """Draws by priority from now on."""
        if self.tree is None and self._cfg.alpha > 0:
            self.use_tree(np.sort(self._index.starts))

    def draw(self, rng: np.random.Generator, count: int, chosen: IntArray | None) -> IntArray:
        self.draws += 1
        if self.tree is not None:
            return self.tree.at(strata(rng, count), chosen)
        if chosen is None:
            return self._index.chosen(rng.integers(0, self._index.count, count))
        return chosen[rng.integers(0, len(chosen), count)]

    def weights_of(self, starts: IntArray, scale: Scale | None) -> FloatArray | float:
        """Returns the importance-sampling weights of drawn sequences: [B]."""
        if self.tree is None or scale is None:
            return 1.0
        lowest, beta = scale
        found: FloatArray = (lowest / self.tree.masses[starts]) ** beta
        return found

    def state_dict(self, held: int) -> StateDict:
        """Returns the priorities of the sequences and steps of the first `held` slots."""
        of_steps = {} if self._of_steps is None else {"of_steps": self._of_steps[:held]}
        return {
            "of": self.of[:held],
            "highest": self.highest,
            "draws": self.draws,
            "in_use": self.tree is not None,
            **of_steps,
        }

    def load_state_dict(self, state: State, shift: int) -> None:
        """Restores what `state_dict` returned; `shift` as for `SequenceIndex`."""
        self.clear()
        held = len(state["of"])
        self.of[:held] = np.roll(np.asarray(state["of"]), -shift)
        self.highest, self.draws = float(state["highest"]), int(state["draws"])
        if "of_steps" in state:
            self._of_steps = np.full(len(self.of), self.highest)
            self._of_steps[:held] = np.roll(np.asarray(state["of_steps"]), -shift)
        if state["in_use"] and self._cfg.alpha > 0:
            self.use_tree(np.sort(self._index.starts))


SequenceBuffer = SequenceReplayBuffer
"""Alias for DI-engine code."""
