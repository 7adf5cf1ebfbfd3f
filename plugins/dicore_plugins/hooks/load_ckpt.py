"""Loads a checkpoint before the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from dicore.interfaces.hook import LearnerHook
from dicore.run.checkpoint_store import read_state


class LoadCkptHook(LearnerHook):
    """Loads policy and counters from a checkpoint before training; an empty path loads nothing.

    A resumed run has its own state by then, and nothing is loaded over it.

    Args:
        name: For people.
        priority: Lower runs first.
        position: When it runs.
        load_path: A checkpoint folder; checked when the hook runs, before any training.
    """

    def __init__(
        self,
        name: str = "load_ckpt",
        *,
        priority: int = 20,
        position: str = "before_run",
        load_path: str = "",
    ) -> None:
        super().__init__(name, position=position, priority=priority)
        self.load_path = load_path
        self._resumed = False

    @classmethod
    def from_value(cls, value: str, position: str) -> Self | None:
        """Makes the hook of the simple form; the value is the path.

        Raises:
            TypeError: it is none.
        """
        if value and not isinstance(value, str):
            raise TypeError("expected the path of a checkpoint")
        return cls(position=position, load_path=value) if value else None

    def resume(self, engine: Any) -> None:
        """Leaves the learner as it is: it has been restored."""
        self._resumed = True

    def __call__(self, engine: Any) -> None:
        """Restores the learner.

        Raises:
            CheckpointError: there is no valid checkpoint at the path.
        """
        if self.load_path and not self._resumed:
            engine.load_state_dict(read_state(Path(self.load_path))["learner"])
            engine.logger.info("loaded %s at update %d", self.load_path, engine.last_iter)
