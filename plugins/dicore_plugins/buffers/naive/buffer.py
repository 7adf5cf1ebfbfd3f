"""A first-in first-out replay buffer that samples uniformly.

Shapes: N samples pushed, B samples drawn.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dicore.config.compiler import as_config
from dicore.data import Batch, Row
from dicore.errors import ReplayCapacityError, ReplayUnderflowError, SchemaError, UsageError
from dicore.run.checkpoint_store import read_state, write_state
from dicore.run.random import stream
from dicore_plugins.buffers.naive.config import NaiveConfig
from dicore_plugins.buffers.ring import IntArray, Ring, Usage, fitted

_LOG = logging.getLogger("dicore.buffer")
_SOME = 16_384
"""Samples of a data set that are pushed together."""
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
    """

    config_class = NaiveConfig

    def __init__(
        self,
        cfg: NaiveConfig | Mapping[str, Any] | None = None,
        *,
        rng: np.random.Generator | None = None,
        log: Any | None = None,
    ) -> None:
        self._cfg = as_config(cfg, NaiveConfig)
        self._lock = threading.Lock()
        self._ring = Ring(self._cfg.replay_buffer_size, debug=self._cfg.debug)
        self._rng = stream("buffer") if rng is None else rng
        period = self._cfg.periodic_thruput_seconds
        self._tracked = tracked = self._cfg.enable_track_used_data
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
        return self._usage.counts(self._ring.newest(slice(None)))

    def count(self) -> int:
        """Number of stored samples."""
        return self._ring.count

    __len__ = count

    def push(
        self,
        data: Row | Sequence[Mapping[str, Any]] | Batch,
        cur_collector_envstep: int | None = None,
    ) -> range:
        """Stores a sample, a list of samples or a Batch, and returns their ids.

        Raises:
            SchemaError: the data are not samples, or keys, dtypes or shapes differ from the first
                push.
        """
        if not isinstance(data, Batch):
            data = samples_of(data)
            if len(data) == 0:
                return range(self.push_count, self.push_count)
        with self._lock:
            ids = self._ring.push(data)
            if self._tracked:
                self._usage.pushed(len(ids), self._ring.cursor)
        return ids

    def load_dataset(self, dataset: Any) -> range:
        """Pushes all samples of a data set, by episode and time, and returns their ids.

        Args:
            dataset: See `IDataset`.

        Raises:
            ReplayCapacityError: it has more samples than fit.
        """
        count, first = len(dataset), self.push_count
        if count > self.replay_buffer_size:
            raise ReplayCapacityError(
                f"the data set has {count} samples, the buffer's capacity is"
                f" {self.replay_buffer_size}",
                hint=f"set replay_buffer_size={count}, or use a part of it (fraction, episodes)",
            )
        for start in range(0, count, _SOME):
            self.push(dataset.take(np.arange(start, min(start + _SOME, count))))
        return range(first, self.push_count)

    def sample_batch(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        sample_range: slice | None = None,
        replace: bool = False,
        *,
        reuse: bool = False,
    ) -> Batch:
        """Draws B samples uniformly and independently.

        Raises:
            ReplayUnderflowError: B exceeds the number of samples to draw from, without `replace`.
            UsageError: B is not positive.
        """
        ring = self._ring
        with self._lock:
            if sample_range is None:
                count = ring.count
                if batch_size > count or batch_size < 1:
                    self._check_size(batch_size, count, replace=replace)
                slots: IntArray = self._rng.integers(0, count, batch_size)
            else:
                chosen = ring.newest(sample_range)
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
                self._check_size(batch_size, ring.count, replace=False)
                some = min(count, max(1, ring.samples_in(_BLOCK) // batch_size))
                count -= some
                slots: IntArray = self._rng.integers(0, ring.count, some * batch_size)
                self._usage.drawn(slots, ring.push_count)
                batches = ring.recycled(slots, batch_size)
            yield from batches

    def sample(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        sample_range: slice | None = None,
        replace: bool = False,
    ) -> list[Row]:
        """Draws like `sample_batch`, and returns the samples as a list of dicts (copies)."""
        return self.sample_batch(
            batch_size, cur_learner_iter, sample_range=sample_range, replace=replace
        ).rows()

    def _check_size(self, batch_size: int, count: int, *, replace: bool) -> None:
        if batch_size < 1:
            raise UsageError(f"batch_size must be >= 1, got {batch_size}")
        if count == 0 or (batch_size > count and not replace):
            raise ReplayUnderflowError(
                f"cannot sample {batch_size} from {count} stored samples",
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

    def state_dict(self) -> dict[str, Any]:
        """Returns samples, cursors, usage counts and the state of the random generator."""
        return {
            **self._ring.state_dict(),
            **self._usage.state_dict(),
            "rng": self._rng.bit_generator.state,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned; sampling continues identically.

        A buffer of a larger capacity gets the samples by age.
        """
        state = fitted(state, self._ring.capacity)
        with self._lock:
            self._ring.load_state_dict(state)
            self._usage.load_state_dict(state, self._ring.count)
        self._rng.bit_generator.state = dict(state["rng"])

    def save_data(self, file: str | Path) -> None:
        """Writes the state atomically to `file`, a folder of arrays and a manifest."""
        write_state(Path(file), self.state_dict())

    def load_data(self, file: str | Path) -> None:
        """Reads what `save_data` wrote."""
        self.load_state_dict(read_state(Path(file)))


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


NaiveBuffer = NaiveReplayBuffer
"""Alias for DI-engine code."""
