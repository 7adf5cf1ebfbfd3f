"""What buffers without a ring have in common."""

from __future__ import annotations

import math
import threading
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dicore.config.compiler import as_config
from dicore.config.schema import ComponentConfig
from dicore.data import Batch, State, StateDict, Tree
from dicore.errors import ReplayUnderflowError, UsageError
from dicore.interfaces.buffer import IDataset, Refused
from dicore.run.checkpoint_store import read_state, write_state
from dicore.run.random import stream
from dicore_plugins.buffers.ring import Ring, array_of

__all__ = ["SampleBuffer", "as_array", "check_draw", "one_by_one", "stored", "too_few_left"]


class SampleBuffer:
    """Base class of buffers that implement `IBuffer` without a ring of columns.

    A subclass implements `_push`, `_drawn`, `state_dict` and `load_state_dict`.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        rng: Random generator for sampling; None: the stream `buffer`.
    """

    config_class: ClassVar[type[ComponentConfig]]
    capacity_in_episodes: ClassVar[bool] = False
    """Whether `replay_buffer_size` is a number of episodes."""

    def __init__(
        self,
        cfg: ComponentConfig | Mapping[str, Any] | None = None,
        *,
        rng: np.random.Generator | None = None,
    ) -> None:
        self._cfg: Any = as_config(cfg, self.config_class)
        self._lock = threading.RLock()
        self._rng = stream("buffer") if rng is None else rng
        self._form = Ring(1)

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        """Returns all options with their defaults, as a plain dict."""
        from dicore.config import default_config

        return dict(default_config(cls.config_class))

    @property
    def replay_buffer_size(self) -> int:
        """Capacity in samples."""
        return int(self._cfg.replay_buffer_size)

    def _check(self, samples: Batch) -> None:
        """Raises SchemaError if samples differ from the first in keys, dtypes or shapes."""
        self._form._check(samples)  # noqa: SLF001 - a ring of one sample, for its check

    def push(self, data: Any, cur_collector_envstep: int | None = None) -> range:
        """Stores a sample, a list of samples or a Batch, and returns their ids; see the class.

        Raises:
            SchemaError: the data are not samples, or keys, dtypes or shapes differ from the first
                push.
            ReplayPriorityError: a given priority is negative or not finite.
            ReplayCapacityError: there is no room for them; nothing is stored.
            UsageError: the data cannot be in this buffer.
        """
        with self._lock:
            known = self._form.known
            try:
                return self._push(data)
            except BaseException:
                if not known:  # of samples that were refused
                    self._form = Ring(1)
                raise

    def _push(self, data: Any) -> range:
        raise NotImplementedError

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

        The draw is refused if `max_use` and `max_staleness` leave too few.

        Raises:
            ReplayUnderflowError: B exceeds the number of samples to draw from, without `replace`.
            UsageError: B is not positive.
        """
        return self._drawn(batch_size, cur_learner_iter, sample_range, replace)

    def _drawn(
        self, size: int, train_iter: int, part: slice | None, replace: bool
    ) -> Batch | Refused:
        raise NotImplementedError

    def sample(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        sample_range: slice | None = None,
        replace: bool = False,
    ) -> list[Any] | Refused:
        """Draws like `sample_batch`, and returns the samples as a list (copies)."""
        return self._listed(batch_size, cur_learner_iter, sample_range, replace)

    def _listed(self, *draw: Any) -> list[Any] | Refused:
        batch = self._drawn(*draw)
        return batch if isinstance(batch, Refused) else list(batch.rows())

    def sample_batches(
        self, count: int, batch_size: int, cur_learner_iter: int = 0
    ) -> Generator[Batch, None, Refused | None]:
        """Draws the same batches as `count` calls of `sample_batch`.

        There is an update after each, so `cur_learner_iter` rises by one each time. Ends early when
        a draw is refused, and returns why.
        """
        return one_by_one(self, count, batch_size, cur_learner_iter)

    def load_dataset(self, dataset: IDataset, get_train_sample: Any | None = None) -> range:
        """Pushes all samples of a data set; see `fill_buffer`."""
        from dicore_plugins.datasets.filling import fill_buffer

        by_episode = self.capacity_in_episodes
        return fill_buffer(self, dataset, get_train_sample, by_episode=by_episode)

    def state_dict(self) -> StateDict:
        """Returns samples, counts and the state of the random generator."""
        raise NotImplementedError

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned; sampling continues identically."""
        raise NotImplementedError

    def save_data(self, file: str | Path) -> None:
        """Writes the state atomically to `file`, a folder of arrays and a manifest."""
        write_state(Path(file), self.state_dict())

    def load_data(self, file: str | Path) -> None:
        """Reads what `save_data` wrote."""
        self.load_state_dict(read_state(Path(file)))


def one_by_one(
    buffer: Any, count: int, batch_size: int, cur_learner_iter: int
) -> Generator[Batch, None, Refused | None]:
    """Draws `count` batches in turn, with an update after each; see `SampleBuffer`."""
    for done in range(count):
        batch = buffer.sample_batch(batch_size, cur_learner_iter + done, reuse=True)
        if isinstance(batch, Refused):
            return batch
        yield batch
    return None


def check_draw(size: int, count: int, what: str, *, replace: bool) -> None:
    """Checks the size of a draw.

    Raises:
        ReplayUnderflowError: it exceeds the `count` things stored, without `replace`.
        UsageError: it is not positive.
    """
    if size < 1:
        raise UsageError(f"batch_size must be >= 1, got {size}")
    if count == 0 or (size > count and not replace):
        raise ReplayUnderflowError(
            f"cannot sample: asked {size}, have {count} {what} (replace={replace})",
            hint="collect more first" if count == 0 else "collect more, or pass replace=True",
            context={"asked": size, "have": count},
        )


def too_few_left(size: int, count: int, cfg: Any, *, replace: bool) -> Refused | None:
    """Returns why a draw is refused from a buffer whose limits left too few samples, or None.

    Args:
        size: B.
        count: Samples that are left.
        cfg: Section with `max_use` and `max_staleness`.
        replace: B may exceed `count`.
    """
    limited = cfg.max_use < math.inf or cfg.max_staleness < math.inf
    if not limited or size < 1 or (count and (replace or size <= count)):
        return None
    return Refused(
        f"drawing {size} samples: max_use={cfg.max_use:g} and max_staleness={cfg.max_staleness:g}"
        f" leave {count}"
    )


def as_array(column: Tree) -> npt.NDArray[Any]:
    """Returns a column as an array, a tensor from any device."""
    return np.asarray(array_of(column))


def stored(column: Tree) -> npt.NDArray[Any]:
    """Returns a copy of a column, in float32 if it is in float64."""
    array = as_array(column)
    return array.astype(np.float32 if array.dtype == np.float64 else array.dtype)
