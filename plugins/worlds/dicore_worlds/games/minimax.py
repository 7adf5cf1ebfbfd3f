"""Exhaustive search to a depth: perfect play of small games, and a measure of strength in others.

Shapes: N states, A actions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dicore.errors import UsageError
from dicore_worlds.games.interface import SupportsRules

__all__ = ["minimax"]

_LATER = 0.99
"""Factor of results per move: won games are won soon, lost ones late."""


def minimax(
    rules: SupportsRules, state: npt.NDArray[np.generic], depth: int
) -> npt.NDArray[np.float32]:
    """Computes what each move is worth if both sides then play best.

    All states of a depth are stepped at once, equal ones once.

    Args:
        rules: Of a game whose states are one array.
        state: [N, ...]; games that go on.
        depth: Moves that are looked ahead, from 1 on; what comes later counts as a draw.

    Returns:
        float32 [N, A] of who is to play, from -1 to 1; -inf where a move is not legal.

    Raises:
        UsageError: the depth is below 1.
    """
    if depth < 1:
        raise UsageError(f"minimax: depth must be >= 1, got {depth}")
    legal = rules.legal(state)
    value = np.full(legal.shape, -np.inf, np.float32)
    if not len(state):
        return value
    row, action = np.nonzero(legal)
    moved = rules.step(state[row], action)
    found, going = moved.reward.copy(), ~moved.over
    if depth > 1 and going.any():
        later, index = np.unique(moved.state[going], axis=0, return_inverse=True)
        best = minimax(rules, later, depth - 1).max(1)
        found[going] = -_LATER * best[index.reshape(-1)]
    value[row, action] = found
    return value
