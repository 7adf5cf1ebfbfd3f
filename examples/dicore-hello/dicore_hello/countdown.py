"""A countdown: a minimal environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray


class Countdown(gymnasium.Env[NDArray[np.float32], int]):
    """Count down to zero; action 1 decrements, action 0 waits.

    Args:
        start: Maximum initial number.
        penalty: Penalty subtracted from the reward of each step.
    """

    def __init__(self, start: int = 5, penalty: float = 0.01) -> None:
        self._start, self._penalty = start, penalty
        self.observation_space = gymnasium.spaces.Box(0, start, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self._left = int(self.np_random.integers(1, self._start + 1))
        return np.array([self._left], np.float32), {}

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        self._left -= int(action)
        done = self._left <= 0
        return np.array([self._left], np.float32), float(done) - self._penalty, done, False, {}
