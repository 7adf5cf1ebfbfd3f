"""A first-in first-out replay buffer that samples uniformly.

Shapes: N samples pushed, B samples drawn.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dicore.config.compiler import as_config
from dicore.config.schema import ComponentConfig
from dicore.data import Batch, Row, State, StateDict
from dicore.errors import (
    ConfigError,
    ReplayCapacityError,
    ReplayUnderflowError,
    SchemaError,
    UsageError,
)
from dicore.run.checkpoint_store import read_state, write_state
from dicore.run.random import stream
from dicore_plugins.buffers.naive.config import NaiveConfig, RingConfig
from dicore_plugins.buffers.ring import MUCH, IntArray, Ring

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IDataset, Refused

_LOG = logging.getLogger("dicore.buffer")
_SAMPLES = ("columns", "cursor", "push_count", "frames", "mass", "held")
"""Entries of a state about the samples themselves, and which of them were removed."""
_BLOCK = 4 << 20
"""Bytes of samples gathered at once: few enough to stay in the CPU cache until they are used."""


class NaiveReplayBuffer:
    """First-in first-out buffer with uniform sampling; implements `IBuffer`.

    Threads may push and sample at the same time; recycled batches belong to the thread that drew
    them.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        rng: Random generator for sampling; None: the stream `buffer`.
        log: Run log for throughput lines (`log_text(text, channel=…)`); None: `logging` only.
        device: Device of `storage=cuda` and `storage=pinned`.
        folder: Folder of `storage=mmap` if the options name none.
    """

    config_class: ClassVar[type[ComponentConfig]] = NaiveConfig
    _cfg: ComponentConfig
    by_row: ClassVar[bool] = False
    """Whether small samples are stored row after row: slower to push, faster to draw."""
    slot_bytes: ClassVar[int] = 8
    """Bytes that are kept of each slot beside its sample, from the beginning on."""

    def __init__(
        self,
        cfg: NaiveConfig | Mapping[str, Any] | None = None,
        *,
        rng: np.random.Generator | None = None,
        log: Any | None = None,
        device: str = "cuda",
        folder: str | Path | None = None,
    ) -> None:
        cfg = as_config(cfg, NaiveConfig)
        self._cfg = cfg
        if missing := set(RingConfig().keys()) - set(cfg.keys()):
            raise ConfigError(
                f"the section is of '{cfg.type or type(cfg).__name__}' and lacks {min(missing)}",
                hint="build the buffer that it names: cfg.policy.other.replay_buffer.build(None)",
            )
        self._lock = threading.RLock()
        if cfg.replay_buffer_size * self.slot_bytes >= MUCH:
            from dicore_plugins.buffers.memory import check_memory

            check_memory(cfg.replay_buffer_size * self.slot_bytes, cfg.replay_buffer_size)
        storage, self._keeps = None, cfg.storage_keep
        if cfg.storage != "cpu":
            from dicore_plugins.buffers.storage import storage_of

            folder = cfg.storage_folder or folder
            storage = storage_of(cfg.storage, device=device, folder=folder, keep=cfg.storage_keep)
        self._ring = Ring(
            cfg.replay_buffer_size, debug=cfg.debug, storage=storage, by_row=self.by_row
        )
        self._rng = stream("buffer") if rng is None else rng
        period = cfg.periodic_thruput_seconds
        self._tracked = tracked = cfg.enable_track_used_data
        self._usage = Usage(self._ring.capacity, tracked=tracked, period=period, log=log)
        self._warned = False

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        """Returns all options with their defaults, as a plain dict."""
        from dicore.config import default_config

        return dict(default_config(cls.config_class))

    @property
    def replay_buffer_size(self) -> int:
        """Capacity in samples."""
        return self._ring.capacity

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

    __len__ = count

    def push(
        self,
        data: Row | Sequence[Mapping[str, Any]] | Batch,
        cur_collector_envstep: int | None = None,
    ) -> range | Refused:
        """Stores a sample, a list of samples or a Batch, and returns their ids.

        Raises:
            SchemaError: the data are not samples, or keys, dtypes or shapes differ from the first
                push.
        """
        if not isinstance(data, Batch):
            data = samples_of(data)
            if len(data) == 0:
                return range(self.push_count, self.push_count)
        self._lock.acquire()  # `with` costs 7 % of a push
        try:
            ids = self._ring.push(data)
            if self._tracked:
                self._usage.pushed(len(ids), self._ring.cursor)
            return ids
        finally:
            self._lock.release()

    def load_dataset(self, dataset: IDataset, get_train_sample: Any | None = None) -> range:
        """Pushes all samples of a data set; see `fill_buffer`."""
        from dicore_plugins.datasets.filling import fill_buffer

        return fill_buffer(self, dataset, get_train_sample)

    def samples(self) -> Batch:
        """Returns a copy of all stored samples, oldest first."""
        with self._lock:
            known = self._ring.known
            return self._ring.batch(self._chosen(slice(None))) if known else Batch({}, 0)

    def sample_batch(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        sample_range: slice | None = None,
        replace: bool = False,
        *,
        reuse: bool = False,
    ) -> Batch | Refused:
        """Draws B samples uniformly and independently.

        Raises:
            ReplayUnderflowError: B exceeds the number of samples to draw from, without `replace`.
            UsageError: B is not positive.
        """
        ring = self._ring
        with self._lock:
            if sample_range is None:
                slots = self._draw(batch_size, batch_size, replace)
            else:
                chosen = self._chosen(sample_range)
                self._check_size(batch_size, len(chosen), replace=replace)
                slots = chosen[self._rng.integers(0, len(chosen), batch_size)]
            self._usage.drawn(slots, ring.push_count)
            return ring.recycled(slots, batch_size)[0] if reuse else ring.batch(slots)

    def sample_batches(
        self, count: int, batch_size: int, cur_learner_iter: int = 0
    ) -> Iterator[Batch]:
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
                batches = ring.recycled(slots, batch_size)
            yield from batches

    def sample(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        sample_range: slice | None = None,
        replace: bool = False,
    ) -> list[Row] | Refused:
        """Draws like `sample_batch`, and returns the samples as a list of dicts (copies)."""
        from dicore.interfaces.buffer import Refused

        drawn = self.sample_batch(
            batch_size, cur_learner_iter, sample_range=sample_range, replace=replace
        )
        return drawn if isinstance(drawn, Refused) else drawn.rows()

    def _draw(self, number: int, batch_size: int, replace: bool) -> IntArray:
        """Returns the slots of `number` samples, for batches of B."""
        count = self._ring.count
        if batch_size > count or batch_size < 1:
            self._check_size(batch_size, count, replace=replace)
        return self._rng.integers(0, count, number)

    def _chosen(self, sample_range: slice) -> IntArray:
        """Returns the slots of a slice of the stored samples, oldest first."""
        return self._ring.newest(sample_range)

    def _check_size(self, batch_size: int, count: int, *, replace: bool) -> None:
        if batch_size < 1:
            raise UsageError(f"batch_size must be >= 1, got {batch_size}")
        if count == 0 or (batch_size > count and not replace):
            raise ReplayUnderflowError(
                f"cannot sample: asked {batch_size}, have {count} (replace={replace})",
                hint="collect more first" if count == 0 else "collect more, or pass replace=True",
                context={"asked": batch_size, "have": count},
            )

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

    def state_dict(self) -> StateDict:
        """Returns samples, cursors, usage counts and the state of the random generator.

        Columns are views, which later pushes change: no thread may push while they are read.
        """
        with self._lock:
            return {
                **self._ring.state_dict(),
                **self._usage.state_dict(),
                "rng": self._rng.bit_generator.state,
            }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned; sampling continues identically.

        A buffer of a larger capacity gets the samples by age.

        Raises:
            ReplayCapacityError: the samples do not fit; nothing is changed.
            UsageError: it is the state of something else; nothing is changed.
        """
        from dicore_plugins.buffers.memory import check_kind, fitted

        with self._lock:
            state = fitted(state, self._ring.capacity)
            check_kind(state, "rng", "random generator")
            before = self._rng.bit_generator.state
            try:
                self._rng.bit_generator.state = dict(state["rng"])
                self._ring.load_state_dict(state)
            except (ReplayCapacityError, ValueError):
                self._rng.bit_generator.state = before
                raise
            self._usage.load_state_dict(state, self._ring.count)

    def save_data(self, file: str | Path) -> None:
        """Writes the state atomically to `file`, a folder of arrays and a manifest.

        Pushes of other threads wait until it is written.
        """
        with self._lock:
            write_state(Path(file), self.state_dict())

    def load_data(self, file: str | Path) -> None:
        """Reads what `save_data` wrote, or what a buffer with `storage_keep` left."""
        self.load_state_dict(_read(file))

    def load_samples(self, file: str | Path) -> None:
        """Reads the samples of such a file: they are as new, and the random stream goes on."""
        read = _read(file)
        state = {key: read[key] for key in _SAMPLES if key in read}
        self.load_state_dict({**state, "rng": self._rng.bit_generator.state})

    def close(self) -> None:
        """Ends a storage other than memory: samples are gone, or kept by `storage_keep`."""
        if self._ring.in_memory:
            return
        with self._lock:
            self._ring.close(self.state_dict() if self._keeps else None)
            self.clear()


def _read(file: str | Path) -> Any:
    folder = Path(file)
    if not (folder / "state").is_dir():
        return read_state(folder)
    from dicore_plugins.buffers.storage import read_kept

    return read_kept(folder)


def samples_of(data: Row | Sequence[Mapping[str, Any]] | Batch) -> Batch:
    """Returns what was pushed, a sample, a list of samples or a Batch, as a Batch.

    Raises:
        SchemaError: the data are not samples.
    """
    if isinstance(data, Batch):
        return data
    rows = [data] if isinstance(data, Mapping) else data
    if not isinstance(rows, Sequence) or not all(isinstance(r, Mapping) for r in rows):
        raise SchemaError(
            f"push: expected a sample, a list of samples or a Batch, got {_describe(data)}",
            hint="pass samples as dicts of numbers and arrays",
        )
    return Batch.from_rows(rows) if rows else Batch({}, 0)


def _describe(data: Any) -> str:
    if not isinstance(data, Sequence):
        return type(data).__name__
    wrong = next(each for each in data if not isinstance(each, Mapping))
    return f"a list with {type(wrong).__name__}"


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
