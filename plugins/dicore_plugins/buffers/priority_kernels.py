"""The loops of `PriorityTree`, compiled by numba; imported on first use.

They do the sums of the NumPy code in the same order, so both give the same bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_BELOW = 1 - 2.0**-52


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def set_masses(sums, minima, starts, slots, masses):  # type: ignore[no-untyped-def]
    """Writes masses and computes the nodes above them; see `PriorityTree.set`."""
    count = len(slots)
    for i in range(count):
        slot = slots[i]
        sums[slot] = masses[i]
        minima[slot] = masses[i] if masses[i] > 0 else np.inf
    for level in range(1, len(starts) - 1):
        below, here, shift = starts[level - 1], starts[level], 2 * level
        for i in range(count):
            node = slots[i] >> shift
            child = below + 4 * node
            sums[here + node] = sums[child] + sums[child + 1] + sums[child + 2] + sums[child + 3]
            low, high = min(minima[child], minima[child + 1]), minima[child + 2]
            minima[here + node] = min(low, high, minima[child + 3])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def find(sums, starts, points, nodes):  # type: ignore[no-untyped-def]
    """Walks from the root to the slots, level by level; see `PriorityTree.find`."""
    left = points.copy()
    for level in range(len(starts) - 2, -1, -1):
        here = starts[level]
        for i in range(len(points)):
            child = here + 4 * nodes[i]
            first = sums[child]
            second = first + sums[child + 1]
            third = second + sums[child + 2]
            point = min(left[i], (third + sums[child + 3]) * _BELOW)
            if point >= third:
                step, before = 3, third
            elif point >= second:
                step, before = 2, second
            elif point >= first:
                step, before = 1, first
            else:
                step, before = 0, 0.0
            left[i] = point - before
            nodes[i] = nodes[i] * 4 + step
