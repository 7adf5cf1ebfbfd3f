"""What `make test` samples and `make soak` does in full."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar
from zlib import crc32

__all__ = ["SOAK", "some"]

SOAK = bool(os.environ.get("DICORE_SOAK"))
"""Whether products are tested in full; as a mark, `soak` keeps single tests out of `make test`."""

_T = TypeVar("_T")


def some(items: Sequence[_T], count: int, name: str) -> list[_T]:
    """Returns `count` of the items in their order, all in a soak; equal names choose equally."""
    if SOAK or count >= len(items):
        return [*items]
    first = crc32(name.encode()) % len(items)
    chosen = sorted((first + n * len(items) // count) % len(items) for n in range(count))
    return [items[n] for n in chosen]
