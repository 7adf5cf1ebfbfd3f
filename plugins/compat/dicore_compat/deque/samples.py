"""A `DequeBuffer` of a hand-written main, where middleware of the task takes replay buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.data import Batch
from dicore_plugins.buffers.priority_tree import checked_priorities, ids_of

if TYPE_CHECKING:
    from dicore_compat.deque.buffer import DequeBuffer

__all__ = ["DequeSamples"]


class DequeSamples:
    """Pushes samples to a `DequeBuffer` one by one, and draws them as a batch.

    Middleware of the buffer sees the calls that it would see from DI-engine's middleware: a push
    has `meta["train_iter_data_collected"]`, if the sample has `collect_iter`; the priority of an
    update goes into `meta["priority"]`.

    Args:
        buffer: Stores the samples, each a dict.
    """

    def __init__(self, buffer: DequeBuffer) -> None:
        self._buffer = buffer

    def count(self) -> int:
        """Number of samples."""
        return self._buffer.count()

    def push(self, data: Any, cur_collector_envstep: int | None = None) -> None:
        """Stores a sample, a list of samples or a Batch."""
        rows = [data] if isinstance(data, Mapping) else data
        for row in data.rows() if isinstance(data, Batch) else rows:
            made = row.get("collect_iter")
            self._buffer.push(row, {} if made is None else {"train_iter_data_collected": int(made)})

    def sample_batch(
        self, size: int, train_iter: int = 0, *, replace: bool = False, reuse: bool = False
    ) -> Batch:
        """Draws samples; with priorities also `replay_unique_id`, `priority` and `IS`.

        Args:
            size: B.
            train_iter: Updates so far.
            replace: Samples may occur repeatedly.
            reuse: No effect: what is returned is new.
        """
        items = self._buffer.sample(size, replace=replace)
        batch = Batch.from_rows([item.data for item in items])
        for name, key in (("priority", "priority"), ("IS", "priority_IS")):
            if all(key in item.meta for item in items):
                values = [item.meta[key] for item in items]
                batch.columns[name] = np.array(values, np.float32)
        ids = [int(item.index, 16) for item in items]
        batch.columns["replay_unique_id"] = np.array(ids, np.int64)
        return batch

    def update(self, info: Mapping[str, object]) -> None:
        """Sets priorities of samples; those that were removed are skipped."""
        ids = ids_of(info["replay_unique_id"])
        given = checked_priorities(info["priority"], len(ids))
        for number, priority in zip(ids.tolist(), given.tolist(), strict=True):
            item = self._buffer.store.get(f"{number:016x}")
            if item is not None:
                self._buffer.update(item.index, None, {**item.meta, "priority": priority})
