"""The loops of `PriorityTree` and of prioritized draws, compiled by numba; imported on first use.

They do the sums of the NumPy code in the same order, so both give the same bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_BELOW = 1 - 2.0**-52


@njit(cache=True, nogil=True)
def _sum_up(sums, minima, leaves, below, here, node):  # type: ignore[no-untyped-def]
    child = below + 4 * node
    first, second, third, fourth = sums[child], sums[child + 1], sums[child + 2], sums[child + 3]
    sums[here + node] = first + second + third + fourth
    if below > 0:
        child -= leaves
        first, second = minima[child], minima[child + 1]
        third, fourth = minima[child + 2], minima[child + 3]
    else:
        first = first if first > 0 else np.inf
        second = second if second > 0 else np.inf
        third = third if third > 0 else np.inf
        fourth = fourth if fourth > 0 else np.inf
    minima[here - leaves + node] = min(first, second, third, fourth)


@njit(cache=True, nogil=True)
def _renew(sums, minima, starts, slots):  # type: ignore[no-untyped-def]
    """Computes the nodes above slots: each one's, or all of a level if those are fewer."""
    count = len(slots)
    for level in range(1, len(starts) - 1):
        below, here = starts[level - 1], starts[level]
        size = (here - below) >> 2
        if size <= count:
            for node in range(size):
                _sum_up(sums, minima, starts[1], below, here, node)
        else:
            for i in range(count):
                _sum_up(sums, minima, starts[1], below, here, slots[i] >> (2 * level))


@njit(cache=True, nogil=True)
def set_masses(sums, minima, starts, slots, masses):  # type: ignore[no-untyped-def]
    """Writes masses and computes the nodes above them; see `PriorityTree.set`."""
    count = len(slots)
    for i in range(count):
        sums[slots[i]] = masses[i]
    _renew(sums, minima, starts, slots)


@njit(cache=True, nogil=True)
def update(sums, minima, starts, slots, masses, values, by_slot):  # type: ignore[no-untyped-def]
    """Writes masses and values of slots that have one; see `PriorityTree.update`."""
    kept, highest = 0, 0.0
    stored = np.empty(len(slots), np.int64)
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0 and sums[slot] > 0:
            sums[slot] = masses[i]
            by_slot[slot] = values[i]
            highest = max(highest, values[i])
            stored[kept] = slot
            kept += 1
    _renew(sums, minima, starts, stored[:kept])
    return highest, len(slots) - kept


@njit(cache=True, nogil=True)
def fill(sums, minima, starts, start, masses):  # type: ignore[no-untyped-def]
    """Writes masses of consecutive slots from `start`; see `PriorityTree.fill`."""
    for i in range(len(masses)):
        sums[start + i] = masses[i]
    first, last = start, start + len(masses) - 1
    if not len(masses):
        return
    for level in range(1, len(starts) - 1):
        first, last = first >> 2, last >> 2
        for node in range(first, last + 1):
            _sum_up(sums, minima, starts[1], starts[level - 1], starts[level], node)


@njit(cache=True, nogil=True)
def are_valid(priority, most):  # type: ignore[no-untyped-def]
    """Returns whether all priorities are from 0 to `most`."""
    for each in priority:  # noqa: SIM110 - compiled
        if not 0 <= each <= most:
            return False
    return True


@njit(cache=True, nogil=True)
def slots_of(ids, push_count, cursor, count, capacity, slots):  # type: ignore[no-untyped-def]
    """Writes the slots of samples by id, -1 if overwritten; returns the largest id."""
    newest = -1
    for i in range(len(ids)):
        age = push_count - ids[i]
        newest = max(newest, ids[i])
        place = cursor - age if cursor >= age else cursor - age + capacity
        slots[i] = place if age <= count else -1
    return newest


@njit(cache=True, nogil=True)
def facts(  # type: ignore[no-untyped-def] # noqa: PLR0913, PLR0917 - benchmarks/prioritized.py
    slots, uses, stamps, priorities, masses, train_iter, push_count, cursor, capacity,
    ids, places, use, staleness, priority, mass,
):  # fmt: skip
    """Counts a draw and writes the facts about its samples, see `AdvancedReplayBuffer`."""
    for i in range(len(slots)):
        uses[slots[i]] += 1
    for i in range(len(slots)):
        slot = slots[i]
        ids[i] = push_count - cursor + slot - (capacity if slot >= cursor else 0)
        places[i] = slot
        use[i] = uses[slot]
        staleness[i] = train_iter - stamps[slot] if stamps[slot] >= 0 else 0
        priority[i] = priorities[slot]
        mass[i] = masses[slot]


@njit(cache=True, nogil=True)
def _at_the_top(sums, points, shares, nodes, left):  # type: ignore[no-untyped-def]
    """Finds the node of the highest level for each point, and how far into it the point is."""
    running, last = np.zeros(len(sums) + 1), 0
    for i in range(len(sums)):
        running[i + 1] = running[i] + sums[i]
        if running[i + 1] > running[i]:
            last = i
    total = running[len(sums)]
    node, before = 0, 0.0
    for i in range(len(points)):
        point = points[i] * total if shares else points[i]
        if point < before:
            node, above = 0, last
            while node < above:
                middle = (node + above) >> 1
                if running[middle + 1] <= point:
                    node = middle + 1
                else:
                    above = middle
        else:  # rising points, as those of a stratified draw
            while node < last and running[node + 1] <= point:
                node += 1
        nodes[i] = node
        left[i] = point - running[node]
        before = point


@njit(cache=True, nogil=True)
def find(sums, starts, points, shares, nodes):  # type: ignore[no-untyped-def]
    """Walks from the highest level to the slots; see `PriorityTree.find`."""
    left = np.empty(len(points))
    top = len(starts) - 2
    _at_the_top(sums[starts[top] : starts[top + 1]], points, shares, nodes, left)
    for level in range(top - 1, -1, -1):
        here = starts[level]
        for i in range(len(points)):
            child = here + 4 * nodes[i]
            first = sums[child]
            second = first + sums[child + 1]
            third = second + sums[child + 2]
            point = min(left[i], (third + sums[child + 3]) * _BELOW)
            after_1, after_2, after_3 = point >= first, point >= second, point >= third
            before = third if after_3 else (second if after_2 else (first if after_1 else 0.0))
            left[i] = point - before
            nodes[i] = nodes[i] * 4 + after_1 + after_2 + after_3
