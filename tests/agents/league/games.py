"""Games of the tests, and tables of them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

RPS5 = [
    [[0, 0] if a == b else [1, -1] if (a - b) % 5 in (1, 2) else [-1, 1] for b in range(5)]
    for a in range(5)
]
"""Rock, paper, scissors with five moves: each beats two and loses to two."""


class TwoOnTwo(gymnasium.Env[Any, Any]):
    """Two teams of two vote once; the team with the higher sum wins. Agents may be dead."""

    agent_ids = ("a", "b", "c", "d")
    observation_space = Dict(
        obs=Box(0, 9, (4, 3), np.float32), alive=MultiBinary(4), action_mask=MultiBinary([4, 3]),
        state=Box(0, 9, (2,), np.float32),
    )  # fmt: skip
    action_space = MultiDiscrete([3] * 4)
    reward_space = Box(-9, 9, (4,), np.float32)

    def __init__(self, dead: tuple[int, ...] = ()) -> None:
        self._dead = dead

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        margin = float(action[0] + action[1] - action[2] - action[3])
        reward = np.array([margin, margin, -margin, -margin], np.float32)
        return self._seen(), reward, True, False, {}

    def _seen(self) -> Any:
        alive = np.array([each not in self._dead for each in range(4)], np.int8)
        rows = np.repeat(np.arange(4, dtype=np.float32)[:, None], 3, 1)
        mask = np.ones((4, 3), np.int8)
        return {"obs": rows, "alive": alive, "action_mask": mask, "state": np.ones(2, np.float32)}


class InTurns(gymnasium.Env[Any, Any]):
    """Agents act in turns, four of them; the second one is paid 5 by the first turn, then 1 each.

    `scripted_action` notes who was asked.
    """

    agent_ids = ("a", "b")
    observation_space = Dict(obs=Box(0, 9, (2, 1), np.float32), action_mask=MultiBinary([2, 2]))
    action_space = MultiDiscrete([2, 2])
    reward_space = Box(-9, 9, (2,), np.float32)

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._turn = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        reward = np.array([0, 1 if self._turn else 5], np.float32)
        self._turn += 1
        return self._seen(), reward, self._turn == 4, False, {}

    def scripted_action(self, agent: int) -> int:
        """Returns 1."""
        self.asked.append((agent, self._turn % 2))
        return 1

    def _seen(self) -> Any:
        mask = np.array([[1, 0], [1, 0]], np.int8)
        mask[self._turn % 2, 1] = 1
        return {"obs": np.full((2, 1), self._turn, np.float32), "action_mask": mask}
