"""Fault injection: fails or kills a process at the points of a write that `dicore.run` names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dicore.run import atomic

__all__ = ["armed"]


@contextmanager
def armed(handler: Callable[[str], None]) -> Iterator[None]:
    """Calls `handler` at each fault-injection point within the block; for crash tests.

    Args:
        handler: Receives the name of the point: `write`, `fsync file`, `rename folder`, …
    """
    before, atomic._handler = atomic._handler, handler  # noqa: SLF001 - the other half of it
    try:
        yield
    finally:
        atomic._handler = before  # noqa: SLF001 - the other half of it
