"""A replay buffer whose size follows a schedule.

Shapes: N samples pushed, B samples drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dicore.config.compiler import as_config
from dicore.data import Batch, State, StateDict
from dicore.interfaces.buffer import Refused
from dicore_plugins.buffers.base import check_draw
from dicore_plugins.buffers.elastic.config import ElasticConfig
from dicore_plugins.buffers.memory import Fact
from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer
from dicore_plugins.buffers.ring import IntArray

__all__ = ["ElasticReplayBuffer"]


class ElasticReplayBuffer(NaiveReplayBuffer):
    """Samples uniformly from the newest samples; older ones are dropped when the size shrinks.

    The size is that of the last push that tells the env steps.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        **parts: See `NaiveReplayBuffer`.
    """

    config_class = ElasticConfig

    def __init__(self, cfg: ElasticConfig | Mapping[str, Any] | None = None, **parts: Any) -> None:
        cfg = as_config(cfg, ElasticConfig)
        super().__init__(cfg, **parts)
        ends = (each or cfg.replay_buffer_size for each in (cfg.start_size, cfg.end_size))
        self._schedule = *ends, cfg.size_steps
        self._size = self._held = 0
        self.set_buffer_size(0)

    @property
    def size(self) -> int:
        """Number of samples that it holds at most, at present."""
        return self._size

    def set_buffer_size(self, envstep: int) -> int:
        """Sets the size to that of the schedule after `envstep` env steps, and returns it."""
        start, end, steps = self._schedule
        with self._lock:
            self._size = round(start + (end - start) * min(1.0, max(0, envstep) / steps))
            self._held = min(self._held, self._size)
            return self._size

    def count(self) -> int:
        """Number of stored samples, without dropped ones."""
        return self._held

    def _push(self, samples: Batch, env_step: int | None) -> range | Refused:
        ids = super()._push(samples, env_step)
        self._held = min(self._held + len(samples), self._size)
        if env_step is not None:
            self.set_buffer_size(env_step)
        return ids

    def _draw(self, number: int, batch_size: int, replace: bool) -> IntArray:
        if batch_size > self._held or batch_size < 1:
            check_draw(batch_size, self._held, replace=replace)
        ages = self._rng.integers(0, self._held, number)
        slots: IntArray = (self._ring.cursor - 1 - ages) % self._ring.capacity
        return slots

    def _chosen(self, sample_range: slice) -> IntArray:
        oldest = self._ring.count - self._held
        return self._ring.newest(slice(oldest, None))[sample_range]

    def clear(self) -> None:
        """Drops all samples; ids continue to rise."""
        with self._lock:
            super().clear()
            self._held = 0

    def _saved(self) -> StateDict:
        return {**super()._saved(), "size": self._size, "held": self._held}

    def _load(self, state: State) -> None:
        """Restores the samples, perhaps those of a naive buffer."""
        super()._load(state)
        self._size = min(int(state.get("size", self._size)), self._ring.capacity)
        self._held = min(int(state.get("held", self._ring.count)), self._size)

    def _facts(self) -> Iterator[Fact]:
        yield from super()._facts()
        held, most = self._held, min(self._size, self._ring.count)
        yield 0 <= held <= most, f"it holds {held} samples of {most}"
