"""The order of the samples of an epoch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["shuffled"]


def shuffled(count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Returns the numbers from 0 to count - 1 in random order: int64 [count].

    Sorts random numbers whose low bits are the numbers, which is three times as fast as a
    permutation. At least 32 bits are random: equal ones, a few in a million, stay in order.

    Args:
        count: At most 2^32.
        rng: Source of the order.
    """
    low = np.uint64((1 << max(count - 1, 0).bit_length()) - 1)
    keys = rng.integers(0, 1 << 64, count, np.uint64)
    keys &= ~low
    keys |= np.arange(count, dtype=np.uint64)
    keys.sort()
    keys &= low
    return keys.view(np.int64)
