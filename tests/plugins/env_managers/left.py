"""What a manager has left behind, beside other programs that use the machine at the same time."""

from __future__ import annotations

import time
from pathlib import Path

__all__ = ["names_left", "shared_names"]


def shared_names() -> set[str]:
    """Returns the names in shared memory, of all programs."""
    shm = Path("/dev/shm")
    return {each.name for each in shm.iterdir()} if shm.exists() else set()


def names_left(before: set[str], most: int = 0) -> set[str]:
    """Returns the names that came since and stay; those of other programs go in 20 s."""
    until = time.monotonic() + 20
    while len(left := shared_names() - before) > most and time.monotonic() < until:
        time.sleep(0.1)
    return left
