"""Proportional prioritized replay (Schaul et al. 2016, arXiv:1511.05952, section 3.3).

Shapes: N samples pushed, B samples drawn, C the capacity.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dicore.config import as_config
from dicore.data import Batch
from dicore.errors import ReplayUnderflowError, SchemaError, UsageError
from dicore.run import read_state, stream, write_state
from dicore_plugins.buffers import Ring
from schools_rl.config import PrioritizedConfig


class SumTree:
    """Weights of C slots, and their sums over pairs, pairs of pairs and so on."""

    def __init__(self, capacity: int) -> None:
        self.size = 1 << max(capacity - 1, 1).bit_length()
        self.tree = np.zeros(2 * self.size)

    @property
    def total(self) -> float:
        return float(self.tree[1])

    def __getitem__(self, slots: Any) -> Any:
        return self.tree[self.size + slots]

    def set(self, slots: Any, weights: Any) -> None:
        """Sets weights and renews the sums above them; the last of equal slots counts."""
        at = self.size + np.asarray(slots)
        self.tree[at] = weights
        while len(at) and at[0] > 1:
            at = np.unique(at >> 1)
            self.tree[at] = self.tree[2 * at] + self.tree[2 * at + 1]

    def find(self, sums: Any) -> Any:
        """The slots in which running sums of the weights exceed `sums`: int64 [B]."""
        at = np.ones(len(sums), np.int64)
        left_over = np.array(sums)
        while at[0] < self.size:
            left = self.tree[2 * at]
            right = (left_over >= left) & (self.tree[2 * at + 1] > 0)
            left_over = np.where(right, left_over - left, left_over)
            at = 2 * at + right
        return at - self.size


class PrioritizedBuffer:
    """A ring that is sampled in proportion to priority ** alpha, with importance weights `IS`."""

    def __init__(self, cfg: Any = None, *, rng: Any = None) -> None:
        self._cfg = as_config(cfg, PrioritizedConfig)
        self._ring = Ring(self._cfg.replay_buffer_size)
        self._rng = stream("buffer") if rng is None else rng
        self._tree = SumTree(self._ring.capacity)
        self._largest = 1.0

    @property
    def replay_buffer_size(self) -> int:
        return self._ring.capacity

    @property
    def push_count(self) -> int:
        return self._ring.push_count

    def count(self) -> int:
        return self._ring.count

    __len__ = count

    def push(self, data: Any, cur_collector_envstep: int | None = None) -> range:
        """Stores samples; their priority is the largest so far."""
        if not isinstance(data, Batch):
            rows = [data] if isinstance(data, Mapping) else data
            if not all(isinstance(row, Mapping) for row in rows):
                raise SchemaError("push: expected a sample, a list of samples or a Batch")
            if not len(rows):
                return range(self.push_count, self.push_count)
            data = Batch.from_rows(rows)
        ids = self._ring.push(data)
        self._tree.set(self._slots(np.array(ids)[-self._ring.capacity :]), self._largest)
        return ids

    def _slots(self, ids: Any) -> Any:
        """The slots of samples that are still stored."""
        ring = self._ring
        return (ring.cursor - (ring.push_count - np.asarray(ids))) % ring.capacity

    def sample_batch(
        self, batch_size: int, cur_learner_iter: int = 0, sample_range: slice | None = None,
        replace: bool = False, *, reuse: bool = False,
    ) -> Batch:  # fmt: skip
        """Draws one sample from each of B equal parts of the total priority."""
        ring, tree = self._ring, self._tree
        stored = None if sample_range is None else ring.newest(sample_range)
        count = ring.count if stored is None else len(stored)
        if batch_size < 1:
            raise UsageError(f"batch_size must be >= 1, got {batch_size}")
        if not count or (batch_size > count and not replace):
            raise ReplayUnderflowError(f"cannot sample {batch_size} from {count} stored samples")
        parts = (np.arange(batch_size) + self._rng.random(batch_size)) / batch_size
        if stored is None:
            slots, total = tree.find(parts * tree.total), tree.total
        else:
            running = tree[stored].cumsum()
            total = running[-1]
            slots = stored[np.searchsorted(running, parts * total, "right").clip(max=count - 1)]
        beta = self._cfg.beta
        beta += (1 - beta) * min(cur_learner_iter / self._cfg.anneal, 1.0)
        weight = (count * tree[slots] / total) ** -beta
        drawn = ring.recycled(slots, batch_size)[0] if reuse else ring.batch(slots)
        facts = {"IS": (weight / weight.max()).astype(np.float32)}
        return Batch({**drawn.columns, **facts, "replay_unique_id": ring.ids(slots)}, batch_size)

    def sample(
        self, batch_size: int, cur_learner_iter: int = 0, sample_range: slice | None = None,
        replace: bool = False,
    ) -> list[Any]:  # fmt: skip
        return self.sample_batch(batch_size, cur_learner_iter, sample_range, replace).rows()

    def update(self, info: Any) -> None:
        """Sets priorities of samples that are still stored; those of the others are ignored."""
        ids = np.asarray(info.get("replay_unique_id", ()), np.int64)
        if not len(ids):
            return
        given = np.asarray(info["priority"], np.float64)
        priority = given + 1e-6
        kept = (ids >= self.push_count - self.count()) & np.isfinite(priority) & (given >= 0)
        weights = priority[kept] ** self._cfg.alpha
        if len(weights):
            self._tree.set(self._slots(ids[kept]), weights)
            self._largest = max(self._largest, float(weights.max()))

    def clear(self) -> None:
        self._ring.clear()
        self._tree = SumTree(self._ring.capacity)

    def state_dict(self) -> dict[str, Any]:
        """Samples, priorities by age, and the state of the random generator."""
        priorities = self._tree[self._ring.newest(slice(None))]
        more = {"priorities": priorities, "largest": self._largest}
        return {**self._ring.state_dict(), **more, "rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: Any) -> None:
        self._ring.load_state_dict(state)
        self._tree = SumTree(self._ring.capacity)
        priorities = np.asarray(state["priorities"])
        if len(priorities):
            self._tree.set(self._ring.newest(slice(None)), priorities)
        self._largest = float(state["largest"])
        self._rng.bit_generator.state = dict(state["rng"])

    def save_data(self, file: str | Path) -> None:
        write_state(Path(file), self.state_dict())

    def load_data(self, file: str | Path) -> None:
        self.load_state_dict(read_state(Path(file)))
