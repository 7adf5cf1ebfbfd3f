"""A small decision process with exact values: all of its episodes can be listed.

Layer t has the states 0 and 1; an episode has three steps, or ends earlier by chance.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

STATES, ACTIONS, STEPS, GAMMA = 2, 2, 3, 0.9
_RNG = np.random.default_rng(7)
NEXT = _RNG.dirichlet(np.ones(STATES + 1), (STEPS, STATES, ACTIONS))
"""P(s' | t, s, a); the last column: the episode ends."""
REWARD = _RNG.normal(size=(STEPS, STATES, ACTIONS))
PI = _RNG.dirichlet(np.ones(ACTIONS), (STEPS, STATES))
MU = _RNG.dirichlet(3 * np.ones(ACTIONS), (STEPS, STATES))

Floats = npt.NDArray[np.float64]


class Episodes(NamedTuple):
    """All episodes from state 0: probability under MU, and columns [E, STEPS]."""

    chance: Floats
    reward: Floats
    log_ratio: Floats
    state: npt.NDArray[np.int64]
    action: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]


def exact_value(pi: Floats = PI) -> Floats:
    """V^pi of each layer and state [STEPS, STATES], by one linear system."""
    size = STEPS * STATES
    matrix, right = np.eye(size), np.zeros(size)
    for t, s, a in product(range(STEPS), range(STATES), range(ACTIONS)):
        right[t * STATES + s] += pi[t, s, a] * REWARD[t, s, a]
        if t + 1 < STEPS:
            for after in range(STATES):
                chance = pi[t, s, a] * NEXT[t, s, a, after]
                matrix[t * STATES + s, (t + 1) * STATES + after] -= GAMMA * chance
    return np.linalg.solve(matrix, right).reshape(STEPS, STATES)


def exact_q(value: Floats) -> Floats:
    """Q of each layer, state and action, of the values of the states."""
    after = np.vstack([value[1:], np.zeros((1, STATES))])
    return REWARD + GAMMA * np.einsum("tsan,tn->tsa", NEXT[..., :STATES], after)


def every_episode() -> Episodes:
    """Lists all episodes that MU can make."""
    rows: list[tuple[float, list[tuple[int, int]]]] = []

    def go_on(t: int, s: int, chance: float, steps: list[tuple[int, int]]) -> None:
        for a in range(ACTIONS):
            taken, now = chance * MU[t, s, a], [*steps, (s, a)]
            if t + 1 == STEPS:
                rows.append((taken, now))
                continue
            rows.append((taken * NEXT[t, s, a, STATES], now))
            for after in range(STATES):
                go_on(t + 1, after, taken * NEXT[t, s, a, after], now)

    go_on(0, 0, 1.0, [])
    chance = np.array([each for each, _ in rows])
    length = np.array([len(steps) for _, steps in rows])
    reward, log_ratio = np.zeros((2, len(rows), STEPS))
    state, action = np.zeros((2, len(rows), STEPS), np.int64)
    for row, (_, steps) in enumerate(rows):
        for t, (s, a) in enumerate(steps):
            state[row, t], action[row, t], reward[row, t] = s, a, REWARD[t, s, a]
            log_ratio[row, t] = np.log(PI[t, s, a] / MU[t, s, a])
    return Episodes(chance, reward, log_ratio, state, action, length)
