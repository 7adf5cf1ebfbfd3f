"""Named points inside dangerous operations, where a test makes the world end.

Production code calls `reach`; nothing happens unless a handler is armed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["armed", "reach"]

_handler: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Tells the armed handler, if any, that execution is at `point`."""
    if _handler is not None:
        _handler(point)


@contextmanager
def armed(handler: Callable[[str], None]) -> Iterator[None]:
    """Calls `handler` with the name of each point reached in the block; it may raise or kill."""
    global _handler  # noqa: PLW0603 - the handler concerns the whole process
    before, _handler = _handler, handler
    try:
        yield
    finally:
        _handler = before
