"""The base class of buffers, and the first-in first-out buffer that samples uniformly.

Shapes: N samples pushed, B samples drawn.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from dicore.config.compiler import as_config
from dicore.config.schema import ComponentConfig
from dicore.data import Batch, Row, State, StateDict, Tree
from dicore.errors import ConfigError, DicoreError, ReplayUnderflowError, SchemaError, UsageError
from dicore.run.checkpoint_store import read_state, write_state
from dicore.run.random import stream
from dicore_plugins.buffers.naive.config import NaiveConfig, RingConfig
from dicore_plugins.buffers.ring import MUCH, IntArray, Ring, Schema, array_of

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IDataset, Refused
    from dicore_plugins.buffers.memory import Fact
    from dicore_plugins.buffers.storage import Storage

Samples = Mapping[str, Any] | Sequence[Mapping[str, Any]] | Batch
"""What is pushed: a sample, a list of samples, or a Batch."""

Pushed = TypeVar("Pushed")
_LOG = logging.getLogger("dicore.buffer")
_SAMPLES = ("columns", "cursor", "push_count", "frames", "mass", "held")
"""Entries of a state about the samples themselves, and which of them were removed."""
_BLOCK = 4 << 20
"""Bytes of samples gathered at once: few enough to stay in the CPU cache until they are used."""


class ReplayBuffer:
    """What all buffers do alike; base class of those that implement `IBuffer`.

    A buffer is a storage that keeps samples, an index that knows which there are, and a sampler
    that chooses among them. A subclass implements `count`, `_push`, `_drawn`, `_saved`, `_load` and
    `_facts`; the lock is held around each of them.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        rng: Random generator for sampling; None: the stream `buffer`.
    """

    config_class: ClassVar[type[ComponentConfig]]
    capacity_in_episodes: ClassVar[bool] = False
    """Whether `replay_buffer_size` is a number of episodes."""
    state_kind: ClassVar[tuple[str, str]] = ("rng", "random generator")
    """An entry that states of such buffers alone have, and what it holds."""
    state_entries: ClassVar[tuple[str, ...]] = ()
    """What a state must have, by path."""

    def __init__(
        self,
        cfg: ComponentConfig | Mapping[str, Any] | None = None,
        *,
        rng: np.random.Generator | None = None,
    ) -> None:
        self._cfg: Any = as_config(cfg, self.config_class)
        self._lock = threading.RLock()
        self._rng = stream("buffer") if rng is None else rng
        self._schema = Schema()
        self._push_count = 0

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        """Returns all options with their defaults, as a plain dict."""
        from dicore.config import default_config

        return dict(default_config(cls.config_class))

    @property
    def replay_buffer_size(self) -> int:
        """Capacity in samples."""
        return int(self._cfg.replay_buffer_size)

    @property
    def push_count(self) -> int:
        """Number of samples pushed so far."""
        return self._push_count

    def count(self) -> int:
        """Number of stored samples."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.count()

    # ---- writing

    def push(self, data: Samples, cur_collector_envstep: int | None = None) -> range | Refused:
        """Stores a sample, a list of samples or a Batch, and returns their ids; see the class.

        Raises:
            SchemaError: the data are not samples, or keys, dtypes or shapes differ from the first
                push.
            ReplayPriorityError: a given priority is negative or not finite.
            ReplayCapacityError: there is no room for them; nothing is stored.
            UsageError: the data cannot be in this buffer.
        """
        samples = samples_of(data)
        with self._lock:
            if not len(samples):
                return range(self.push_count, self.push_count)
            if self._schema.spec is not None:
                return self._push(samples, cur_collector_envstep)
            return self._once(self._push, samples, cur_collector_envstep)

    def _once(
        self, push: Callable[[Pushed, int | None], range | Refused], data: Pushed, step: int | None
    ) -> range | Refused:
        """Calls a function that pushes data; the form of first ones, if refused, is forgotten."""
        known = self._schema.known
        try:
            return push(data, step)
        except BaseException:
            if not known:
                self._forget()
            raise

    def _forget(self) -> None:
        """Forgets the form of samples that were refused."""
        self._schema.clear()

    def _push(self, samples: Batch, env_step: int | None) -> range | Refused:
        raise NotImplementedError

    def update(self, info: Mapping[str, Any]) -> None:
        """Ignores priorities: sampling is uniform."""

    # ---- reading

    def sample_batch(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        sample_range: slice | None = None,
        replace: bool = False,
        *,
        reuse: bool = False,
    ) -> Batch | Refused:
        """Draws B samples; see the class for the columns that they have beside theirs.

        The draw is refused if limits of the buffer leave too few.

        Args:
            batch_size: B.
            cur_learner_iter: Updates so far, for limits on staleness.
            sample_range: Draw from this slice of the samples, oldest first.
            replace: Allow B to exceed the number of samples to draw from.
            reuse: Return recycled memory, valid until the thread's second next call with this size.

        Raises:
            ReplayUnderflowError: B exceeds the number of samples to draw from, without `replace`.
            UsageError: B is not positive.
        """
        with self._lock:
            return self._drawn(batch_size, cur_learner_iter, sample_range, replace, reuse)

    def _drawn(
        self, size: int, train_iter: int, part: slice | None, replace: bool, reuse: bool
    ) -> Batch | Refused:
        raise NotImplementedError

    def sample(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        sample_range: slice | None = None,
        replace: bool = False,
    ) -> list[Row] | Refused:
        """Draws like `sample_batch`; returns the samples as a list of dicts (copies)."""
        drawn = self.sample_batch(
            batch_size, cur_learner_iter, sample_range=sample_range, replace=replace
        )
        return self._rows(drawn) if isinstance(drawn, Batch) else drawn

    def _rows(self, batch: Batch) -> list[Row]:
        return batch.rows()

    def sample_batches(
        self, count: int, batch_size: int, cur_learner_iter: int = 0
    ) -> Generator[Batch, None, Refused | None]:
        """Draws the same batches as `count` calls of `sample_batch(…, reuse=True)`.

        There is an update after each, so `cur_learner_iter` rises by one each time. Ends early when
        a draw is refused, and returns why; raises what `sample_batch` does.
        """
        for done in range(count):
            batch = self.sample_batch(batch_size, cur_learner_iter + done, reuse=True)
            if not isinstance(batch, Batch):
                return batch
            yield batch
        return None

    # ---- state

    def clear(self) -> None:
        """Removes all samples; ids continue to rise."""
        raise NotImplementedError

    def load_dataset(
        self, dataset: IDataset, get_train_sample: Callable[..., Batch] | None = None
    ) -> range:
        """Pushes all samples of a data set; see `fill_buffer`."""
        from dicore_plugins.datasets.filling import fill_buffer

        by_episode = self.capacity_in_episodes
        return fill_buffer(self, dataset, get_train_sample, by_episode=by_episode)

    def state_dict(self) -> StateDict:
        """Returns samples, counts and the state of the random generator.

        Columns may be views, which later pushes change: no thread may push while they are read.
        """
        with self._lock:
            return {**self._saved(), "rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned; sampling continues identically.

        Raises:
            ReplayCapacityError: the samples do not fit; nothing is changed.
            UsageError: it is the state of something else; nothing is changed.
            SchemaError: the state lacks something, and nothing is changed; or it contradicts
                itself, and the buffer may be empty then.
        """
        from dicore_plugins.buffers.memory import check_entries, check_kind

        check_kind(state, "rng", "random generator")
        check_kind(state, *self.state_kind)
        check_entries(state, self.state_entries)
        with self._lock:
            before = self._rng.bit_generator.state, self.count(), self.push_count
            self._rng.bit_generator.state = dict(state["rng"])
            valid, why = False, ""
            try:
                self._load(state)
                valid, why = self.check_valid()
            except Exception as error:
                self._rng.bit_generator.state = before[0]
                if isinstance(error, DicoreError) and before[1:] == (self.count(), self.push_count):
                    raise
                why = f"{type(error).__name__}: {error}"
            if not valid:
                self.clear()
                raise SchemaError(
                    f"the state of the buffer contradicts itself: {why}",
                    hint="load another checkpoint; the buffer is empty now",
                )

    def _saved(self) -> StateDict:
        raise NotImplementedError

    def _load(self, state: State) -> None:
        raise NotImplementedError

    def save_data(self, file: str | Path) -> None:
        """Writes the state atomically to `file`, a folder of arrays and a manifest.

        Pushes of other threads wait until it is written.
        """
        with self._lock:
            write_state(Path(file), self.state_dict())

    def load_data(self, file: str | Path) -> None:
        """Reads what `save_data` wrote, or what a buffer with `storage_keep` left."""
        self.load_state_dict(_read(file))

    def check_valid(self) -> tuple[bool, str]:
        """Returns whether all parts fit each other, and what contradicts what; "" if they do."""
        from dicore_plugins.buffers.memory import verdict

        with self._lock:
            return verdict(self._facts())

    def _facts(self) -> Iterator[Fact]:
        """Yields what holds in a valid buffer; a subclass adds its own."""
        yield self.count() <= self.replay_buffer_size, "there are more samples than fit"
        yield self.push_count >= self.count(), "there are more samples than were pushed"


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
        given = as_config(cfg, NaiveConfig)
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
        self._warned = False

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
                batches = ring.recycled(slots, batch_size)
            yield from batches
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


def _read(file: str | Path) -> StateDict:
    folder = Path(file)
    if not (folder / "state").is_dir():
        return dict(read_state(folder))
    from dicore_plugins.buffers.storage import read_kept

    kept: StateDict = read_kept(folder)
    return kept


def check_draw(size: int, count: int, what: str = "", *, replace: bool) -> None:
    """Checks the size of a draw.

    Raises:
        ReplayUnderflowError: it exceeds the `count` things stored, without `replace`.
        UsageError: it is not positive.
    """
    if size < 1:
        raise UsageError(f"batch_size must be >= 1, got {size}")
    if count == 0 or (size > count and not replace):
        have = f"{count} {what}" if what else count
        raise ReplayUnderflowError(
            f"cannot sample: asked {size}, have {have} (replace={replace})",
            hint="collect more first" if count == 0 else "collect more, or pass replace=True",
            context={"asked": size, "have": count},
        )


def as_array(column: Tree) -> npt.NDArray[Any]:
    """Returns a column as an array, a tensor from any device."""
    return np.asarray(array_of(column))


def stored(column: Tree) -> npt.NDArray[Any]:
    """Returns a copy of a column, in float32 if it is in float64."""
    array = as_array(column)
    return array.astype(np.float32 if array.dtype == np.float64 else array.dtype)


def samples_of(data: object) -> Batch:
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
