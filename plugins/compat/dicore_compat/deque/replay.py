"""A deque buffer with the interface of replay buffers, for pipelines.

Shapes: N samples pushed, B samples drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dicore.data import Batch, State, StateDict
from dicore.errors import ReplayUnderflowError, UsageError
from dicore.interfaces.buffer import Refused
from dicore_compat.deque.buffer import DequeBuffer
from dicore_compat.deque.config import DequeConfig
from dicore_compat.deque.middleware import staleness_check, use_time_check
from dicore_compat.deque.priority import PriorityExperienceReplay
from dicore_compat.deque.store import BufferedData
from dicore_plugins.buffers.advanced.limits import checked_stamps, too_few_left
from dicore_plugins.buffers.base import ReplayBuffer, check_draw, stored
from dicore_plugins.buffers.memory import Fact
from dicore_plugins.buffers.priority_tree import checked_priorities, ids_of

__all__ = ["DequeReplayBuffer"]


class DequeReplayBuffer(ReplayBuffer):
    """Stores copies of samples in a `DequeBuffer` and draws them by priority; implements `IBuffer`.

    Drawn samples have the columns `priority` and `IS` float32 and `replay_unique_id` int64 [B] too.

    The middleware `use_time_check`, `staleness_check` and `PriorityExperienceReplay` is added as
    the options say, inside that of the option `middleware`; more can be added by `buffer.use(…)`.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        rng: Random generator for sampling; None: the stream `buffer`.

    Attributes:
        buffer: The items, each a sample; `meta` has `priority`, `use_count` and
            `train_iter_data_collected`.
    """

    config_class = DequeConfig

    def __init__(
        self,
        cfg: DequeConfig | Mapping[str, object] | None = None,
        *,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__(cfg, rng=rng)
        self.buffer = DequeBuffer(self._cfg.replay_buffer_size, rng=rng)
        own = [each.build(None, buffer_=self.buffer) for each in self._cfg.middleware]
        every = [*own, *self._standard(own)]
        for middleware in sorted(every, key=_chooses):  # among what the others leave
            self.buffer.use(middleware)
        self._by_age = bool(own) or self._cfg.max_staleness < math.inf

    def _standard(self, own: list[object]) -> Iterator[object]:
        """Yields the middleware that the options name."""
        cfg = self._cfg
        if cfg.max_staleness < math.inf:
            yield staleness_check(self.buffer, cfg.max_staleness)
        if cfg.max_use < math.inf:
            yield use_time_check(self.buffer, cfg.max_use)
        if not any(map(_chooses, own)):
            yield PriorityExperienceReplay(
                self.buffer,
                priority_power_factor=cfg.alpha,
                IS_weight_power_factor=cfg.beta,
                IS_weight_anneal_train_iter=cfg.anneal_step,
            )

    @property
    def push_count(self) -> int:
        """Number of samples pushed so far."""
        return self.buffer.store.pushed

    def count(self) -> int:
        """Number of stored samples."""
        return self.buffer.count()

    def _push(self, samples: Batch, env_step: int | None) -> range:
        with self.buffer.store.changing():
            first = self.push_count
            columns = dict(samples.columns)
            given = columns.pop("priority", None)
            samples = Batch(columns, len(samples))
            metas: list[dict[str, object]] = [{} for _ in range(len(samples))]
            if given is not None:
                for meta, priority in zip(
                    metas, checked_priorities(given, len(samples)).tolist(), strict=True
                ):
                    meta["priority"] = priority
            stamps = columns.get("collect_iter", np.full(len(metas), -1))
            for meta, stamp in zip(metas, checked_stamps(stamps, len(metas)), strict=True):
                meta["train_iter_data_collected"] = int(stamp) if stamp >= 0 else math.inf
            self._schema.check(samples)
            rows = samples.map(stored).rows()
            for row, meta in zip(rows, metas, strict=True):
                self.buffer.push(row, meta)
            return range(first, self.push_count)

    def _drawn(
        self, size: int, train_iter: int, part: slice | None, replace: bool, reuse: bool
    ) -> Batch | Refused:
        try:
            items = self._draw(size, train_iter, part, replace=replace)
        except ReplayUnderflowError as error:
            have = error.context.get("have", 0)
            refused = too_few_left(size, have, self._cfg, replace=replace)
            if refused is None and self._middleware_removed():
                refused = Refused(f"drawing {size} samples: the middleware leaves {have}")
            if refused is None:
                raise
            return refused
        batch = Batch.from_rows([item.data for item in items])
        metas = [item.meta for item in items]
        batch.columns["priority"] = np.array([each["priority"] for each in metas], np.float32)
        batch.columns["IS"] = np.array([each["priority_IS"] for each in metas], np.float32)
        ids = [int(item.index, 16) for item in items]
        batch.columns["replay_unique_id"] = np.array(ids, np.int64)
        return batch

    def _middleware_removed(self) -> bool:
        """Returns whether middleware by name has removed samples."""
        stored = min(self.push_count, self.replay_buffer_size)
        return bool(self._cfg.middleware) and self.count() < stored

    def _draw(
        self, size: int, train_iter: int, sample_range: slice | None, *, replace: bool
    ) -> list[BufferedData]:
        check_draw(size, self.count(), "samples", replace=True)
        options: dict[str, Any] = {"replace": replace, "sample_range": sample_range}
        if self._by_age:
            options["train_iter_sample_data"] = train_iter
        return self.buffer.sample(size, **options)

    def update(self, info: Mapping[str, object]) -> None:
        """Sets priorities of samples; those that were removed are skipped.

        Raises:
            ReplayPriorityError: a priority is negative or not finite; nothing is changed.
            UsageError: there are no ids, or not as many as priorities.
        """
        if "priority" not in info:
            return
        if "replay_unique_id" not in info:
            raise UsageError("update needs replay_unique_id beside priority")
        ids = ids_of(info["replay_unique_id"])
        priority = checked_priorities(info["priority"], len(ids))
        store = self.buffer.store
        with store.changing():
            for number, value in zip(ids.tolist(), priority.tolist(), strict=True):
                item = store.get(f"{number:016x}")
                if item is not None:
                    self.buffer.update(item.index, None, {**item.meta, "priority": value})

    def clear(self) -> None:
        """Removes all samples; ids continue to rise."""
        self.buffer.clear()
        self._schema.clear()

    def _facts(self) -> Iterator[Fact]:
        yield from super()._facts()
        for middleware in self.buffer.middleware:
            if isinstance(middleware, PriorityExperienceReplay):
                yield middleware.check_valid()

    def state_dict(self) -> StateDict:
        """Returns samples, meta data, priorities and the state of the random generator."""
        return self.buffer.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned; sampling continues identically.

        Raises:
            ReplayCapacityError: the samples do not fit into this buffer.
        """
        self.buffer.load_state_dict(state)
        self._schema.clear()
        if self.count():
            self._schema.check(Batch.from_rows([self.buffer.get(0).data]))


def _chooses(middleware: object) -> bool:
    return isinstance(middleware, PriorityExperienceReplay)
