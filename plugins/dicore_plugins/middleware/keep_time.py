"""Times blocks of code by name: `with KeepTime("agent/update"):`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from dicore_plugins.middleware.profiler import StepTimer

__all__ = ["KeepTime", "timed_by"]


class _Current:
    """The timer of this process, and the highest level that it measures."""

    timer: StepTimer | None = None
    level: int = 0


class KeepTime:
    """Times a block while the run is profiled (`--profile`) or inside `keeping_time`.

    Blocks and middleware that it runs in are above it in the table. Elsewhere it does nothing, in
    less than a microsecond.

    Args:
        name: Name in the table; `a/b` is the block `b` in `a`.
        level: Blocks with a higher level than the timer's are not timed.
    """

    __slots__ = ("_level", "_name", "_spans")

    def __init__(self, name: str, level: int = 1) -> None:
        self._name = name
        self._level = level
        self._spans: list[AbstractContextManager[None]] | None = None

    def __enter__(self) -> Self:
        """Starts the clock."""
        timer = _Current.timer
        if timer is not None and self._level <= _Current.level:
            self._spans = [timer.span(part) for part in self._name.split("/") if part]
            for span in self._spans:
                span.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Stops the clock."""
        if self._spans is not None:
            for span in reversed(self._spans):
                span.__exit__(None, None, None)
            self._spans = None


@contextmanager
def timed_by(timer: StepTimer, level: int = 99) -> Iterator[StepTimer]:
    """Lets a timer measure the `KeepTime` blocks inside the block.

    Args:
        timer: The timer; it measures the thread that made it, and those that run middleware.
        level: Highest level that is timed.
    """
    before = _Current.timer, _Current.level
    _Current.timer, _Current.level = timer, level
    try:
        yield timer
    finally:
        _Current.timer, _Current.level = before
