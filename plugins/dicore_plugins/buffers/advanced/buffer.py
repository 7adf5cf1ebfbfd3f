"""A prioritized replay buffer with limits on use, staleness and throughput.

Shapes: N samples pushed, B samples drawn, C the capacity.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.config.compiler import as_config
from dicore.data import Batch, Row, State, StateDict
from dicore.errors import SchemaError, UsageError
from dicore.interfaces.buffer import Refused
from dicore_plugins.buffers import priorities
from dicore_plugins.buffers.advanced.config import AdvancedConfig
from dicore_plugins.buffers.advanced.limits import (
    BufferLog,
    ThruputControl,
    checked_stamps,
    too_few_left,
)
from dicore_plugins.buffers.base import ReplayBuffer, check_draw
from dicore_plugins.buffers.memory import Fact, check_entries, fitted
from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer
from dicore_plugins.buffers.naive.config import NaiveConfig, RingConfig
from dicore_plugins.buffers.priorities import Late, Priorities, by_slot, is_far
from dicore_plugins.buffers.priority_tree import FloatArray, checked_priorities, ids_of, masses_of
from dicore_plugins.buffers.ring import IntArray

if TYPE_CHECKING:
    from dicore_plugins.buffers.storage import Storage

__all__ = ["AdvancedBuffer", "AdvancedReplayBuffer"]

_IDS, _SLOTS = "replay_unique_id", "replay_buffer_idx"
_FACTS = {_IDS: np.int64, _SLOTS: np.int64, "use": np.int64, "staleness": np.int64,
          "priority": np.float32, "IS": np.float32}  # fmt: skip


class AdvancedReplayBuffer(NaiveReplayBuffer):
    """Draws samples in proportion to priority^alpha, one from each of B equal parts of the sum.

    New samples get the highest priority so far, or that of their column `priority`. Each drawn
    sample has also `replay_unique_id` and `replay_buffer_idx` int64 (its id and slot), `priority`
    float32, `IS` float32 (importance-sampling weight, divided by the largest possible one), `use`
    int64 (its draws, with this one) and `staleness` int64 (updates since it was collected).
    `sample` returns ids as strings: `buffer_17`.
    Schaul et al. 2016, Prioritized Experience Replay.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        rng: Random generator for sampling; None: the stream `buffer`.
        log: Run log for throughput and for facts about drawn samples; None: `logging` only.
        clock: Returns the time in seconds, for throughput.
        device: Device of `storage=cuda` and `storage=pinned`.
        folder: Folder of `storage=mmap` if the options name none.
        storage: Keeps the columns, instead of what the option `storage` names.

    Attributes:
        removed: Number of samples removed so far, by reason: `full`, `use`, `stale`.
        skipped: Number of priorities that came when their samples were no longer stored.
    """

    config_class = AdvancedConfig
    _cfg: AdvancedConfig
    by_row, slot_bytes = True, 40

    def __init__(
        self,
        cfg: AdvancedConfig | Mapping[str, Any] | None = None,
        *,
        rng: np.random.Generator | None = None,
        log: Any | None = None,
        clock: Callable[[], float] = time.monotonic,
        device: str = "cuda",
        folder: str | Path | None = None,
        storage: Storage | None = None,
    ) -> None:
        cfg = as_config(cfg, AdvancedConfig)
        shared = {key: cfg[key] for key in RingConfig().keys()}  # noqa: SIM118 - no dict
        base = NaiveConfig(**shared, enable_track_used_data=True, periodic_thruput_seconds=None)
        super().__init__(base, rng=rng, device=device, folder=folder, storage=storage)
        self._cfg: Any = cfg
        of, self._usage.times, self._collect_iter = by_slot(cfg.replay_buffer_size)
        self._priorities = Priorities(cfg.replay_buffer_size, cfg, of)
        self._tree = self._priorities.tree_used()
        self._oldest_iter = math.inf
        self._limited = cfg.max_use < math.inf or cfg.max_staleness < math.inf
        self._held = self.skipped = 0
        self._late: Late | None = None
        self._thruput = ThruputControl(cfg.thruput_controller, clock)
        self._log = BufferLog(cfg.monitor, log, clock)
        self.removed = self._log.removed

    @property
    def beta(self) -> float:
        """Exponent of the importance-sampling weights of the next draw."""
        return self._priorities.beta

    def count(self) -> int:
        """Number of stored samples, without removed ones."""
        return self._held

    # ---- writing

    push = ReplayBuffer.push

    def _push(self, samples: Batch, env_step: int | None) -> range | Refused:
        given, count = None, len(samples)
        if _FACTS.keys() & samples.columns.keys():  # drawn before, perhaps from another buffer
            if "priority" in samples:
                given = checked_priorities(samples["priority"], count)
            columns = {key: each for key, each in samples.items() if key not in _FACTS}
            samples = Batch(columns, count)
        stamps: Any = samples.columns.get("collect_iter", -1)
        if stamps.__class__ is not int:
            stamps = checked_stamps(stamps, count)
        refused = self._thruput.refuses_push(count)
        if refused is not None:
            return refused
        ids = self._ring.push(samples)
        self._usage.pushed(count, self._ring.cursor)
        self._place(count, None if given is None else self._priorities.raised(given), stamps)
        self._thruput.pushed += count
        self._log.pushed(count, env_step)
        return ids

    def _place(self, count: int, given: FloatArray | None, stamps: Any) -> None:
        """Sets the priorities of the last `count` samples pushed."""
        capacity, cursor, tree = self._ring.capacity, self._ring.cursor, self._tree
        every, alpha = self._priorities, self._cfg.alpha
        kept = min(count, capacity)
        first, row = (cursor - kept) % capacity, count - kept
        if stamps.__class__ is not int and kept:
            self._oldest_iter = min(self._oldest_iter, int(stamps[row:].min()))
        while kept:
            stop = min(first + kept, capacity)
            rows = slice(row, row + stop - first)
            overwritten = int(np.count_nonzero(tree.masses[first:stop]))
            self.removed["full"] += overwritten
            self._held += stop - first - overwritten
            priority = every.highest if given is None else given[rows]
            every.of[first:stop] = priority
            tree.fill(first, stop, masses_of(priority, alpha))
            self._collect_iter[first:stop] = stamps if stamps.__class__ is int else stamps[rows]
            kept -= stop - first
            first, row = 0, rows.stop

    def update(self, info: Mapping[str, Any]) -> None:
        """Sets priorities of samples; those that were overwritten or removed are skipped.

        Priorities on a GPU take effect, and are checked, in the next call of `update`: then they
        have arrived, so that nobody waits for them.

        Args:
            info: `priority` [B], >= 0, with `replay_unique_id` or `replay_buffer_idx` [B], as
                drawn; arrays, tensors or lists.

        Raises:
            ReplayPriorityError: a priority is negative or not finite; nothing is changed.
            UsageError: there are no ids, or not as many as priorities, or they are of another
                buffer.
        """
        if "priority" not in info:
            return
        key = _IDS if _IDS in info else _SLOTS
        if key not in info:
            raise UsageError(f"update needs {_IDS} or {_SLOTS} beside priority")
        if not is_far(info["priority"]):
            self._set(key, self._ids_of(info[key]), info["priority"])
            return
        with self._lock:
            before, self._late = self._late, Late(key, self._ids_of(info[key]), info["priority"])
            if before is not None:
                self._set(*before.arrived())

    def _ids_of(self, given: Any) -> IntArray:
        return ids_of(given, self._cfg.instance_name)

    def _set(self, key: str, numbers: IntArray, given: Any) -> None:
        """Sets priorities of samples by id or slot."""
        priority = checked_priorities(given, len(numbers), self._tree.kernels)
        if not len(numbers):
            return
        with self._lock:
            ring, slots = self._ring, numbers
            if key == _IDS:
                place = ring.push_count, ring.cursor, ring.count, ring.capacity
                slots = priorities.slots_of(numbers, *place, self._tree.kernels)
            elif not 0 <= numbers.min() <= numbers.max() < ring.capacity:
                raise UsageError(f"{_SLOTS} must be from 0 to {ring.capacity - 1}")
            self.skipped += self._priorities.set(slots, priority)

    # ---- reading

    def _drawn(
        self, size: int, train_iter: int, part: slice | None, replace: bool, reuse: bool
    ) -> Batch | Refused:
        if self._limited:
            self._remove_stale(train_iter)
        chosen = None if part is None else self._chosen(part)
        stored = self._held if chosen is None else len(chosen)
        refused = self._too_few_left(size, chosen, replace=replace) if self._limited else None
        if refused is not None:
            return refused
        check_draw(size, stored, replace=replace)
        refused = self._thruput.refuses_draw(size, math.inf if replace else stored)
        if refused is not None:
            return refused
        scale = self._priorities.scale
        slots = self._priorities.draw(self._rng, size, chosen)
        if self._cfg.max_use < math.inf:
            slots = self._within_max_use(slots, chosen)
        self._thruput.drawn += size
        batch, masses = self._annotated(slots, train_iter, reuse=reuse)
        batch.columns["IS"][:] = self._priorities.weights(masses, scale)
        self._log.drawn(batch.columns, size, self._held, train_iter)
        return batch

    sample_batches = ReplayBuffer.sample_batches

    def _rows(self, batch: Batch) -> list[Row]:
        """Returns rows whose ids are strings: `buffer_17`."""
        rows = batch.rows()
        for row in rows:
            row[_IDS] = f"{self._cfg.instance_name}_{int(row[_IDS])}"
        return rows

    def _chosen(self, sample_range: slice) -> IntArray:
        """Returns the slots of a slice of the stored samples, oldest first."""
        slots = self._ring.newest(slice(None))
        held = slots if self._held == len(slots) else slots[self._tree.masses[slots] > 0]
        return held[sample_range]

    def _too_few_left(self, size: int, chosen: IntArray | None, *, replace: bool) -> Refused | None:
        """Returns why a draw is refused as `max_use` and `max_staleness` left too few, or None."""
        cfg, count = self._cfg, self._held if chosen is None else len(chosen)
        refused = too_few_left(size, count, cfg, replace=replace)
        if refused is not None or cfg.max_use == math.inf:
            return refused
        uses = self._usage.counts(self._chosen(slice(None)) if chosen is None else chosen)
        draws = int(np.maximum(math.ceil(cfg.max_use) - uses, 0).sum())
        if draws >= size:
            return None
        return Refused(f"drawing {size} samples: max_use={cfg.max_use:g} leaves {draws} draws")

    def _within_max_use(self, slots: IntArray, chosen: IntArray | None) -> IntArray:
        """Draws again what would exceed `max_use`; removes samples that have reached it."""
        most = math.ceil(self._cfg.max_use)
        while True:
            order = np.argsort(slots, kind="stable")
            unique, first, times = np.unique(slots[order], return_index=True, return_counts=True)
            earlier = np.arange(len(slots)) - np.repeat(first, times)
            uses = self._usage.counts(slots[order]) + earlier + 1
            spent = unique[self._usage.counts(unique) + times >= most]
            self._remove(spent, "use")
            again = order[uses > most]
            if not len(again):
                return slots
            slots[again] = self._tree.at(self._rng.random(len(again)), chosen)

    def _annotated(
        self, slots: IntArray, train_iter: int, *, reuse: bool
    ) -> tuple[Batch, FloatArray]:
        """Counts a draw; returns its samples with the facts about each, and priority^alpha.

        `IS` is not filled in.
        """
        ring, size = self._ring, len(slots)
        batch: Batch = ring.recycled(slots, size)[0] if reuse else ring.batch(slots)
        columns = batch.columns
        if "IS" not in columns:
            columns.update({key: np.empty(size, dtype) for key, dtype in _FACTS.items()})
        found = [columns[key] for key in _FACTS if key != "IS"]
        masses = np.empty(size)
        of = self._priorities.of
        known = self._usage.times, self._collect_iter, of, self._tree.masses
        place = train_iter, ring.push_count, ring.cursor, ring.capacity
        gather = (self._tree.kernels or priorities).facts
        gather(slots, *known, *place, *found, masses)
        if self._cfg.max_use < math.inf:  # some were removed by this draw
            masses = self._priorities.masses(of[slots])
        return batch, masses

    # ---- removing

    def _remove(self, slots: IntArray, reason: str) -> None:
        slots = slots[self._tree.masses[slots] > 0]
        if len(slots):
            self._priorities.remove(slots)
            self._held -= len(slots)
            self.removed[reason] += len(slots)

    def _remove_stale(self, train_iter: int) -> None:
        """Removes samples collected `max_staleness` updates ago or earlier."""
        limit = train_iter - self._cfg.max_staleness
        if self._oldest_iter > limit:
            return
        stored = self._chosen(slice(None))
        stamps = self._collect_iter[stored]
        known = stamps >= 0
        stale = known & (stamps <= limit)
        self._remove(stored[stale], "stale")
        left = stamps[known & ~stale]
        self._oldest_iter = int(left.min()) if len(left) else math.inf

    def clear(self) -> None:
        """Drops all samples; ids continue to rise."""
        with self._lock:
            self._ring.clear()
            self._usage.clear()
            self._tree.clear()
            self._held, self._oldest_iter = 0, math.inf

    # ---- state

    def _saved(self) -> StateDict:
        held = self._ring.count
        return {
            **super()._saved(),
            "priority": self._priorities.of[:held],
            "mass": self._tree.masses[:held],
            "collect_iter": self._collect_iter[:held],
            "alpha": self._cfg.alpha,
            "max_priority": self._priorities.highest,
            "draws": self._priorities.draws,
            "skipped": self.skipped,
            "removed": dict(self.removed),
            "monitor": self._log.state_dict(),
            "thruput": self._thruput.state_dict(),
            **({} if self._late is None else {"late": list(self._late.arrived())}),
        }

    def _load(self, state: State) -> None:
        """Restores the samples; those of a naive buffer have equal priorities."""
        check_entries(state, ("thruput.pushed", "thruput.drawn") if "thruput" in state else ())
        state = fitted(state, self._ring.capacity)
        held = len(Batch(dict(state["columns"]))) if state["columns"] else 0
        priority = np.asarray(state.get("priority", np.ones(held)), np.float64)
        mass = np.array(state.get("mass", np.ones(held)), np.float64)  # perhaps our own
        stamps = np.asarray(state.get("collect_iter", np.full(held, -1)), np.int64)
        _check_state(held, priority, mass, stamps)
        super()._load(state)
        every = self._priorities
        if state.get("alpha") != self._cfg.alpha:
            mass = np.where(mass > 0, every.masses(priority), 0.0)
        self._tree.clear()
        self._tree.fill(0, held, mass)
        every.of[:held] = priority
        every.highest = float(state.get("max_priority", 1.0))
        every.draws = int(state.get("draws", 0))
        self._held = int(np.count_nonzero(mass))
        self._collect_iter[:held] = stamps
        self._oldest_iter = -math.inf if held else math.inf  # found at the next draw
        self.skipped = int(state.get("skipped", 0))
        self._late = Late(*state["late"]) if "late" in state else None
        self.removed.update(state.get("removed", {}))
        self._log.load_state_dict(state.get("monitor", {}))
        if "thruput" in state:
            self._thruput.load_state_dict(state["thruput"])

    def _facts(self) -> Iterator[Fact]:
        yield from super()._facts()
        found = int(np.count_nonzero(self._tree.masses))
        yield self._held == found, f"it counts {self._held} samples; {found} have a mass"
        yield self._priorities.check_valid(self._ring.newest(slice(None)))
        stamps = self._collect_iter[self._chosen(slice(None))]
        older = (stamps >= 0) & (stamps < self._oldest_iter)
        yield not older.any(), f"a sample is older than the oldest, of update {self._oldest_iter}"


def _check_state(held: int, priority: FloatArray, mass: FloatArray, stamps: IntArray) -> None:
    """Raises SchemaError if there is not a valid value for each of `held` samples."""
    for name, values in (("priority", priority), ("mass", mass), ("collect_iter", stamps)):
        if values.shape != (held,):
            raise SchemaError(f"the state has {values.size} values of '{name}' for {held} samples")
        if values is stamps and held:
            checked_stamps(stamps, held)
        elif not (np.isfinite(values) & (values >= 0)).all():
            raise SchemaError(f"the state has values of '{name}' that are negative or not finite")


AdvancedBuffer = AdvancedReplayBuffer
"""Alias for DI-engine code."""
