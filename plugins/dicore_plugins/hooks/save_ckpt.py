"""Saves checkpoints at intervals, and at the end of a run."""

from __future__ import annotations

from typing import Any, Self

from dicore.interfaces.hook import LearnerHook
from dicore_plugins.hooks.interval import Interval


class SaveCkptHook(LearnerHook):
    """Asks for a checkpoint `iteration_N` every so many updates, or after the run.

    Args:
        name: For people.
        priority: Lower runs first.
        position: When it runs.
        freq: Updates between checkpoints, where the position is an iteration's.
    """

    def __init__(
        self,
        name: str = "save_ckpt",
        *,
        priority: int = 20,
        position: str = "after_iter",
        freq: int = 10_000,
    ) -> None:
        super().__init__(name, position=position, priority=priority)
        self._interval = Interval(freq) if position.endswith("iter") else None

    @classmethod
    def from_value(cls, value: int | bool, position: str) -> Self | None:
        """Makes the hook of the simple form; the value is the interval, or yes or no."""
        if not value:
            return None
        freq = 10_000 if value is True else int(value)
        return cls(f"save_ckpt_{position}", position=position, freq=freq)

    def __call__(self, engine: Any) -> None:
        if engine.rank == 0 and (self._interval is None or self._interval.due(engine.last_iter)):
            engine.save_checkpoint()
