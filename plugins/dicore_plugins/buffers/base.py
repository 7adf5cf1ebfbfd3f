"""The base class of buffers: what all do alike, whatever they store and however they draw.

Shapes: N samples pushed, B samples drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from dicore.config.compiler import as_config
from dicore.config.schema import ComponentConfig
from dicore.data import Batch, Row, State, StateDict, Tree
from dicore.errors import DicoreError, ReplayUnderflowError, SchemaError, UsageError
from dicore.run.checkpoint_store import read_state, write_state
from dicore.run.random import stream
from dicore_plugins.buffers.ring import Schema, array_of

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IDataset, Refused
    from dicore_plugins.buffers.memory import Fact

Samples = Mapping[str, Any] | Sequence[Mapping[str, Any]] | Batch
"""What is pushed: a sample, a list of samples, or a Batch."""

Pushed = TypeVar("Pushed")


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
        self.load_state_dict(read_saved(file))

    def check_valid(self) -> tuple[bool, str]:
        """Returns whether all parts fit each other, and what contradicts what; "" if they do."""
        from dicore_plugins.buffers.memory import verdict

        with self._lock:
            return verdict(self._facts())

    def _facts(self) -> Iterator[Fact]:
        """Yields what holds in a valid buffer; a subclass adds its own."""
        yield self.count() <= self.replay_buffer_size, "there are more samples than fit"
        yield self.push_count >= self.count(), "there are more samples than were pushed"


def read_saved(file: str | Path) -> StateDict:
    """Reads what `save_data` wrote, or what a buffer with `storage_keep` left."""
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
