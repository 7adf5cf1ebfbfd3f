"""When a process that was lost is started again, and when the run ends instead."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from typing import Final

from dicore.config.schema import Section, frozen, option

__all__ = ["RestartOptions", "Restarts"]

_LONGEST_PAUSE_S: Final = 30.0


@frozen(kw_only=True)
class RestartOptions(Section):
    """How long a process may take or be silent, and how often it is replaced."""

    start_timeout: float = option(
        120.0, "limit for starting a process, including its environments", gt=0, unit="s"
    )
    heartbeat_timeout: float = option(
        5.0, "silence after which a process is taken for dead and replaced", gt=0, unit="s"
    )
    max_restarts: int = option(
        5,
        "times within restart_window that a process may be lost before it has delivered anything;"
        " after that the run ends",
        ge=0,
    )
    restart_window: float = option(
        600.0, "time after which the loss of a process no longer counts", gt=0, unit="s"
    )


class Restarts:
    """Counts how often processes were lost since they delivered anything; safe for threads.

    Args:
        most: Losses of one process that are made good.
        window: Seconds after which a loss no longer counts.
    """

    def __init__(self, most: float, window: float = math.inf) -> None:
        self._most, self._window = most, window
        self._lock = threading.Lock()
        self._lost_at: dict[str, deque[float]] = {}

    def lost(self, name: str) -> float | None:
        """Counts a loss.

        Returns:
            Seconds to wait before the process is started again: none for the first loss, then
            longer and longer. None: it was lost too often.
        """
        with self._lock:
            self._lost_at.setdefault(name, deque()).append(time.monotonic())
        count = self.count(name)
        if count > self._most:
            return None
        return 0.0 if count == 1 else min(0.5 * 2 ** min(count, 10), _LONGEST_PAUSE_S)

    def count(self, name: str) -> int:
        """Returns how often a process was lost within the window, and since it delivered."""
        with self._lock:
            losses = self._lost_at.get(name, deque())
            while losses and losses[0] < time.monotonic() - self._window:
                losses.popleft()
            return len(losses)

    def delivered(self, name: str) -> None:
        """Forgets the losses of a process, which has done something."""
        with self._lock:
            self._lost_at.pop(name, None)

    def are_too_many(self, *names: str) -> bool:
        """Returns whether each of these was lost too often."""
        return all(self.count(name) > self._most for name in names)
