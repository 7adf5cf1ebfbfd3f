"""A learner hook."""

from __future__ import annotations

import logging
from typing import Any

from dicore.interfaces.hook import LearnerHook


class Cheer(LearnerHook):
    """Logs "hurray" at the end of the training.

    Args:
        name: Name of the hook.
        priority: Priority, at least 0; hooks with a lower one run first.
        position: Position at which the hook runs.
        loud: Log in capitals.
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
        """Logs the message; `engine` is the learner."""
        text = f"hurray, {engine.train_iter} updates"
        logging.getLogger(__name__).info(text.upper() if self._loud else text)
