"""The rate of the recent past, for progress lines."""

from __future__ import annotations

from collections import deque

_MARKS = 20
"""Marks kept per window: the resolution of its beginning."""


class RecentRate:
    """Units per second over the last seconds, so that a fast beginning is soon forgotten.

    Args:
        window: Seconds that the rate looks back; more if nothing was counted for longer.
    """

    def __init__(self, window: float = 20.0) -> None:
        self._window = window
        self._marks: deque[tuple[float, int]] = deque()

    def forget(self) -> None:
        """Begins anew at the next mark."""
        self._marks.clear()

    def mark(self, now: float, count: int) -> None:
        """Takes note of `count` units in all at `now`, in seconds of any clock that only rises."""
        marks = self._marks
        if not marks or now - marks[-1][0] >= self._window / _MARKS:
            marks.append((now, count))
        while len(marks) > 1 and marks[1][0] <= now - self._window:
            marks.popleft()

    def per_second(self, now: float, count: int) -> float:
        """Returns the units per second up to `count` units at `now`; 0 if nothing was noted."""
        if not self._marks:
            return 0.0
        began, before = self._marks[0]
        return (count - before) / max(now - began, 1e-9)
