"""The first-in first-out buffer that samples uniformly.

Shapes: B samples drawn.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dicore.config.compiler import as_config
from dicore.config.schema import ComponentConfig
from dicore.data import Batch, State, StateDict, Tree
from dicore.errors import ConfigError, UsageError
from dicore_plugins.buffers.base import ReplayBuffer, Samples, check_draw, read_saved
from dicore_plugins.buffers.naive.config import NaiveConfig, RingConfig
from dicore_plugins.buffers.ring import MUCH, IntArray, Ring

if TYPE_CHECKING:
    from dicore.interfaces.buffer import Refused
    from dicore_plugins.buffers.memory import Fact
    from dicore_plugins.buffers.storage import Storage

_LOG = logging.getLogger("dicore.buffer")
_SAMPLES = ("columns", "cursor", "push_count", "frames", "mass", "held")
"""Entries of a state about the samples themselves, and which of them were removed."""
_BLOCK = 4 << 20
"""Bytes of samples gathered at once: few enough to stay in the CPU cache until they are used."""


class NaiveReplayBuffer(ReplayBuffer):
    """First-in first-out buffer with uniform sampling; implements `IBuffer`.

    Threads may push and sample at the same time; recycled batches belong to the thread that drew
    them.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        rng: Random generator for sampling; None: the stream `buffer`.
        log: Run log for throughput lines (`log_text(text, channel=…)`); None: `logging` only.
        device: Device of `storage=cuda` and `storage=pinned`.
        folder: Folder of `storage=mmap` if the options name none.
        storage: Keeps the columns, instead of what the option `storage` names.
    """

    config_class: ClassVar[type[ComponentConfig]] = NaiveConfig
    state_kind = ("cursor", "columns of samples")
    state_entries: ClassVar[tuple[str, ...]] = ("columns", "push_count")
    by_row: ClassVar[bool] = False
    """Whether small samples are stored row after row: slower to push, faster to draw."""
    slot_bytes: ClassVar[int] = 8
    """Bytes that are kept of each slot beside its sample, from the beginning on."""

    def __init__(
        self,
        cfg: Any = None,
        *,
        rng: np.random.Generator | None = None,
        log: Any | None = None,
        device: str = "cuda",
        folder: str | Path | None = None,
        storage: Storage | None = None,
    ) -> None:
        given = as_config(cfg, self.config_class)
        super().__init__(given, rng=rng)
        if missing := set(RingConfig().keys()) - set(given.keys()):
            raise ConfigError(
                f"the section is of '{given.type or type(given).__name__}' and lacks"
                f" {min(missing)}",
                hint="build the buffer that it names: cfg.policy.other.replay_buffer.build(None)",
            )
        cfg = self._cfg
        if cfg.replay_buffer_size * self.slot_bytes >= MUCH:
            from dicore_plugins.buffers.memory import check_memory

            check_memory(cfg.replay_buffer_size * self.slot_bytes, cfg.replay_buffer_size)
        self._keeps = cfg.storage_keep
        if storage is None and cfg.storage != "cpu":
            from dicore_plugins.buffers.storage import storage_of

            folder = cfg.storage_folder or folder
            storage = storage_of(cfg.storage, device=device, folder=folder, keep=cfg.storage_keep)
        self._ring = Ring(
            cfg.replay_buffer_size, debug=cfg.debug, storage=storage, by_row=self.by_row
        )
        self._schema = self._ring.schema
        period = cfg.periodic_thruput_seconds
        self._tracked = tracked = cfg.enable_track_used_data
        self._usage = Usage(self._ring.capacity, tracked=tracked, period=period, log=log)
        self._warned, self._writes = False, 0

    @property
    def push_count(self) -> int:
        """Total number of pushed samples."""
        return self._ring.push_count

    @property
    def use_count(self) -> IntArray:
        """How often each stored sample was drawn, oldest first: int64 [count].

        Raises:
            UsageError: `enable_track_used_data` is off.
        """
        with self._lock:
            return self._usage.counts(self._chosen(slice(None)))

    def count(self) -> int:
        """Number of stored samples."""
        return self._ring.count

    def push(self, data: Samples, cur_collector_envstep: int | None = None) -> range | Refused:
        """Stores a sample, a list of samples or a Batch, and returns their ids.

        Raises:
            SchemaError: the data are not samples, or keys, dtypes or shapes differ from the first
                push.
        """
        if not isinstance(data, Batch):
            return super().push(data, cur_collector_envstep)
        self._lock.acquire()  # `with` costs 7 % of a push
        try:
            return self._push(data, cur_collector_envstep)
        finally:
            self._lock.release()

    def _push(self, samples: Batch, env_step: int | None) -> range | Refused:
        ids = self._ring.push(samples)
        if self._tracked:
            self._usage.pushed(len(ids), self._ring.cursor)
        return ids

    def _forget(self) -> None:
        self.clear()

    def write(self, ids: Tree, columns: Mapping[str, Tree]) -> int:
        """Replaces columns of stored samples; see `SupportsRewrite`."""
        from dicore_plugins.buffers.rewrite import last_of_each, values_of

        with self._lock:
            slots = self._slots_of(ids)
            values = values_of(self._schema, columns, (len(slots),))
            rows = last_of_each(slots)
            for path, each in values.items():
                self._ring.column(path)[slots[rows]] = each[rows]
            self._writes += 1
            return len(rows)

    def _slots_of(self, ids: Tree) -> IntArray:
        """Returns the slots of samples by id, int64 [B]; -1 for those that are not stored."""
        from dicore_plugins.buffers.priorities import slots_of
        from dicore_plugins.buffers.priority_tree import ids_of

        ring, number = self._ring, ids_of(ids)
        place = ring.push_count, ring.cursor, ring.count, ring.capacity
        return slots_of(number, *place) if len(number) else number

    def samples(self) -> Batch:
        """Returns a copy of all stored samples, oldest first."""
        with self._lock:
            known = self._ring.known
            return self._ring.batch(self._chosen(slice(None))) if known else Batch({}, 0)

    def _drawn(
        self, size: int, train_iter: int, part: slice | None, replace: bool, reuse: bool
    ) -> Batch | Refused:
        ring = self._ring
        if part is None:
            slots = self._draw(size, size, replace)
        else:
            chosen = self._chosen(part)
            check_draw(size, len(chosen), replace=replace)
            slots = chosen[self._rng.integers(0, len(chosen), size)]
        self._usage.drawn(slots, ring.push_count)
        return ring.recycled(slots, size)[0] if reuse else ring.batch(slots)

    def sample_batches(
        self, count: int, batch_size: int, cur_learner_iter: int = 0
    ) -> Generator[Batch, None, Refused | None]:
        """Draws the same batches as `count` calls of `sample_batch(…, reuse=True)`.

        Gathers several batches at once, a few MiB at a time, which is about five times as fast.

        Raises:
            ReplayUnderflowError: B exceeds the number of stored samples.
            UsageError: B is not positive.
        """
        ring = self._ring
        while count > 0:
            with self._lock:
                some = min(count, max(1, ring.samples_in(_BLOCK) // max(1, batch_size)))
                count -= some
                slots = self._draw(some * batch_size, batch_size, replace=False)
                self._usage.drawn(slots, ring.push_count)
                batches, writes = ring.recycled(slots, batch_size), self._writes
            for rows, batch in zip(slots.reshape(-1, batch_size), batches, strict=True):
                with self._lock:  # after a `write`, what was gathered is old
                    now = batch if self._writes == writes else ring.recycled(rows, batch_size)[0]
                yield now
        return None

    def _draw(self, number: int, batch_size: int, replace: bool) -> IntArray:
        """Returns the slots of `number` samples, for batches of B."""
        count = self._ring.count
        if batch_size > count or batch_size < 1:
            check_draw(batch_size, count, replace=replace)
        return self._rng.integers(0, count, number)

    def _chosen(self, sample_range: slice) -> IntArray:
        """Returns the slots of a slice of the stored samples, oldest first."""
        return self._ring.newest(sample_range)

    def update(self, info: Mapping[str, Any]) -> None:
        """Ignores priorities, with one warning: sampling is uniform."""
        if not self._warned:
            self._warned = True
            _LOG.warning("priorities have no effect: the naive buffer samples uniformly")

    def clear(self) -> None:
        """Drops all samples; ids continue to rise."""
        with self._lock:
            self._ring.clear()
            self._usage.clear()

    def _saved(self) -> StateDict:
        return {**self._ring.state_dict(), **self._usage.state_dict()}

    def _load(self, state: State) -> None:
        """Restores the samples; a buffer of a larger capacity gets them by age."""
        from dicore_plugins.buffers.memory import fitted

        state = fitted(state, self._ring.capacity)
        self._ring.load_state_dict(state)
        self._usage.load_state_dict(state, self._ring.count)

    def _facts(self) -> Iterator[Fact]:
        yield self._ring.check_valid()
        yield self._usage.check_valid(self._ring.count)
        yield from super()._facts()

    def load_samples(self, file: str | Path) -> None:
        """Reads the samples of such a file: they are as new, and the random stream goes on."""
        read = read_saved(file)
        state = {key: read[key] for key in _SAMPLES if key in read}
        self.load_state_dict({**state, "rng": self._rng.bit_generator.state})

    def close(self) -> None:
        """Ends a storage other than memory: samples are gone, or kept by `storage_keep`."""
        if self._ring.in_memory:
            return
        with self._lock:
            self._ring.close(self.state_dict() if self._keeps else None)
            self.clear()


class Usage:
    """Logs the rates of pushed and drawn samples; optionally counts the draws of each sample.

    Args:
        capacity: Capacity of the ring.
        tracked: Count how often each sample is drawn.
        period: Seconds between log lines; None: no log lines.
        log: Run log for the lines, besides `logging`; None: `logging` only.

    Attributes:
        times: How often the sample of each slot was drawn, int [C]; None if that is not tracked.
    """

    def __init__(
        self, capacity: int, *, tracked: bool, period: float | None, log: Any | None = None
    ) -> None:
        self._capacity = capacity
        self.times: Any = np.full(capacity, -1, np.int64) if tracked else None
        self._period = period
        self._log = log
        self._since = time.monotonic()
        self._pushed = self._drawn = 0
        self.never_drawn = 0

    def pushed(self, count: int, cursor: int) -> None:
        """Counts new samples, whose slots end before `cursor`; call it if draws are tracked."""
        if self.times is not None:
            slots = (cursor - 1 - np.arange(min(count, self._capacity))) % self._capacity
            self.never_drawn += int((self.times[slots] == 0).sum())
            self.times[slots] = 0

    def drawn(self, slots: IntArray, push_count: int) -> None:
        """Counts a draw by its slots; writes the log line when due, after `push_count` pushes."""
        self._drawn += len(slots)
        if self.times is not None:
            np.add.at(self.times, slots, 1)
        if self._period is not None and time.monotonic() - self._since >= self._period:
            self._log_rates(push_count)

    def clear(self) -> None:
        """Forgets the draws of samples that were dropped."""
        if self.times is not None:
            self.times.fill(-1)

    def counts(self, slots: IntArray) -> IntArray:
        """Returns how often the samples in `slots` were drawn: int64, the same shape.

        Raises:
            UsageError: draws are not tracked.
        """
        if self.times is None:
            raise UsageError("draws are not tracked", hint="set enable_track_used_data=True")
        times: IntArray = self.times[slots].astype(np.int64, copy=False)
        return times

    def state_dict(self) -> StateDict:
        """Returns the draw counts of the stored samples; empty if draws are not tracked."""
        if self.times is None:
            return {}
        return {"use_times": self.times, "never_drawn": self.never_drawn}

    def load_state_dict(self, state: State, held: int) -> None:
        """Restores what `state_dict` returned.

        Args:
            state: If the saved buffer did not track draws, counting starts at zero.
            held: Number of stored samples, in the first slots.
        """
        self._pushed = int(state["push_count"])
        if self.times is None:
            return
        times = np.array(state.get("use_times", np.zeros(held)))[:held]  # perhaps our own
        self.times.fill(-1)
        self.times[:held] = times
        self.never_drawn = int(state.get("never_drawn", 0))

    def check_valid(self, held: int) -> tuple[bool, str]:
        """Returns whether the first `held` slots alone have counts of draws, or why not."""
        if self.times is None:
            return True, ""
        wrong = (self.times[:held] < 0).any() or (self.times[held:] >= 0).any()
        return not wrong, "there are not as many counts of draws as samples"

    def _log_rates(self, push_count: int) -> None:
        now = time.monotonic()
        seconds = now - self._since
        unused = "" if self.times is None else f", {self.never_drawn} overwritten without a draw"
        pushed, drawn = (push_count - self._pushed) / seconds, self._drawn / seconds
        line = f"{pushed:.0f} samples/s pushed, {drawn:.0f} samples/s drawn{unused}"
        _LOG.info("%s", line)
        if self._log is not None:
            self._log.log_text(line, channel="buffer")
        self._pushed, self._drawn = push_count, 0
        self._since = now


NaiveBuffer = NaiveReplayBuffer
"""Alias for DI-engine code."""


def __getattr__(name: str) -> object:
    """Gives what is in `dicore_plugins.buffers.base` now, with a warning, until dicore 0.3."""
    if name not in ("as_array", "samples_of", "stored"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from dicore.deprecation import deprecated
    from dicore_plugins.buffers import base

    deprecated(f"{__name__}.{name}", instead=f"{base.__name__}.{name}", since="0.1", stacklevel=2)
    return getattr(base, name)
