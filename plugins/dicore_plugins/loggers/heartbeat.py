"""Signs of life from within a call that learns for long, to the loggers that show progress."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["beat", "listeners"]

listeners: list[Callable[[], None]] = []
"""Called at each beat; an open logger adds itself, and leaves when it is closed."""


def beat() -> None:
    """Says that one step of a long call is done, as a minibatch of an on-policy update."""
    for listener in tuple(listeners):
        listener()
