"""A learner hook."""

from __future__ import annotations

import logging
from typing import Any

from dicore.interfaces.hook import LearnerHook


class Cheer(LearnerHook):
    """Cheers when the training ends.

    Args:
        name: For people.
        priority: 0 and up; lower runs first.
        position: When it runs.
        loud: Whether it shouts.
    """

    def __init__(
        self,
        name: str = "cheer",
        *,
        priority: int = 100,
        position: str = "after_run",
        loud: bool = False,
    ) -> None:
        super().__init__(name, position=position, priority=priority)
        self._loud = loud

    def __call__(self, engine: Any) -> None:
        """Called by the learner, `engine`."""
        text = f"hurray, {engine.train_iter} updates"
        logging.getLogger(__name__).info(text.upper() if self._loud else text)
