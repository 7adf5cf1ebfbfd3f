"""A task that cannot be solved without memory."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np


class Recall(gymnasium.Env):
    """Repeat at the end what was shown at the start: return 1, otherwise -1.

    Args:
        length: Steps of an episode.
    """

    def __init__(self, length: int = 5) -> None:
        self.length = length
        self.observation_space = gymnasium.spaces.Box(0, 1, (3,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.shown, self.steps = int(self.np_random.integers(2)), 0
        first = np.zeros(3, np.float32)
        first[self.shown] = 1
        return first, {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        over = self.steps == self.length
        reward = (1.0 if int(action) == self.shown else -1.0) if over else 0.0
        asked = float(self.steps == self.length - 1)
        return np.array([0, 0, asked], np.float32), reward, over, False, {}
