"""A count of updates that says when an interval is over, also where updates come in bundles."""

from __future__ import annotations


class Interval:
    """Says once per `length` updates that it is due.

    Args:
        length: Updates in one interval.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._seen = 0

    def pass_over(self, count: int) -> None:
        """Takes everything up to `count` as done: a resumed count goes on in its interval."""
        self._seen = count // self.length

    def due(self, train_iter: int) -> bool:
        """Says whether a multiple of `length` was reached since the last yes."""
        passed = train_iter // self.length
        if train_iter < self._seen * self.length:
            self._seen = passed
        if passed <= self._seen:
            return False
        self._seen = passed
        return True
