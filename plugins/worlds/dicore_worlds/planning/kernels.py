"""The walks of `puct`, compiled by numba; imported on first use.

They do the sums of the NumPy code in the same order and precision, so both give the same trees.

Shapes: B trees, N nodes of all trees together, A actions, L levels of a walk.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["climb", "walk"]

_F1, _F2, _I1, _I2 = "float32[::1]", "float32[:, ::1]", "int64[::1]", "int64[:, ::1]"


@njit(f"void({_I1}, {_I1}, {_I1}, int64, {_I2}, {_I1})", cache=True, nogil=True)
def walk(roots, following, child, actions, path, length):  # type: ignore[no-untyped-def]
    """Walks down each tree to an edge that nobody took; fills path [B, L] and length [B]."""
    for tree in range(len(roots)):
        node, level = roots[tree], 0
        while node >= 0:
            edge = node * actions + following[node]
            path[tree, level] = edge
            level += 1
            node = child[edge]
        length[tree] = level


@njit(f"int64({_F1}, {_I1}, {_F1}, float32, float32, float32)", cache=True, nogil=True)
def _best(q, tried, prior, low, width, weight):  # type: ignore[no-untyped-def]
    """Returns the action that a node takes next."""
    best, chosen = np.float32(-np.inf), 0
    for action in range(len(q)):
        if prior[action] == 0:
            continue
        score = np.float32(0)
        if tried[action]:
            score = min(max((q[action] - low) / width, np.float32(0)), np.float32(1))
        bonus = np.float64(prior[action] * weight) / (1 + tried[action])
        score = np.float32(np.float64(score) + bonus)
        if score > best:
            best, chosen = score, action
    return chosen


@njit(
    f"void({_I1}, int64, {_I2}, {_I1}, {_I1}, {_I1}, {_F1}, {_F1}, {_F1}, {_I1}, {_F2}, {_I2},"
    f" {_F2}, {_F1}, {_F1}, float32, {_F1})",
    cache=True,
    nogil=True,
)
def climb(  # type: ignore[no-untyped-def] # noqa: PLR0913, PLR0917 - the arrays of a tree
    roots, size, path, length, following, child, reward, discount, value, visits, q, tried,
    prior, least, most, least_range, factor,
):  # fmt: skip
    """Counts the values of the newest nodes on the way up, and chooses what nodes take next."""
    actions = q.shape[1]
    for tree in range(len(roots)):
        new = roots[tree] + size - 1
        back, below, wider = value[new], new, False
        low, high = least[tree], most[tree]
        for level in range(length[tree] - 1, -1, -1):
            edge = path[tree, level]
            node, action = edge // actions, edge % actions
            back = reward[below] + discount[below] * back
            visits[node] += 1
            value[node] += (back - value[node]) / np.float32(visits[node])
            below = node
        for level in range(length[tree]):
            edge = path[tree, level]
            node, action = edge // actions, edge % actions
            below = child[edge]
            found = reward[below] + discount[below] * value[below]
            q[node, action] = found
            tried[node, action] += 1
            if level and discount[node] == 0:
                continue  # what would come after the end of an episode
            wider |= (found < least[tree]) | (found > most[tree])
            low, high = min(low, found), max(high, found)
        if wider:
            least[tree], most[tree] = low, high
        width = max(high - low, least_range)
        for number in range(size if wider else length[tree] + 1):
            if wider:
                node = roots[tree] + number
            elif number < length[tree]:
                node = path[tree, number] // actions
            else:
                node = new
            weight = factor[visits[node]]
            following[node] = _best(q[node], tried[node], prior[node], low, width, weight)
