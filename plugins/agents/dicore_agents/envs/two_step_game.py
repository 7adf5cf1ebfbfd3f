"""The two-step game (Rashid et al. 2018, arXiv:1803.11485, section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import gymnasium
import numpy as np
from gymnasium.spaces import MultiDiscrete

from dicore.data import Tree
from dicore_agents.envs.form import Actions, Seen, agents_space, numbers

if TYPE_CHECKING:
    from dicore.data import Info

__all__ = ["TwoStepGame"]

_PAYOFF: Final = np.array([[[7, 7], [7, 7]], [[0, 1], [1, 8]]], np.float32)
"""Payoffs in the states 2A and 2B, by both actions."""


class TwoStepGame(gymnasium.Env[Tree, Tree]):
    """Agent 0 chooses one of two games, which both agents then play.

    In the first game every action pays 7, in the second (1, 1) pays 8, (0, 0) nothing and others 1:
    the optimum is 8, and what is learned of a sum of two values per agent is 7.

    `obs` is float32 [2, 3] and `state` float32 [3], one-hot which of three states it is. Actions
    are int64 [2], 0 or 1. The reward is one number, of the team.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - see gymnasium.Env
    agent_ids = ("agent_0", "agent_1")

    def __init__(self) -> None:
        self.observation_space = agents_space(numbers(2, 3), state=numbers(3))
        self.state_space = numbers(3)
        self.action_space = MultiDiscrete([2, 2])
        self.reward_space = numbers(high=8.0)
        self._state = 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Seen, Info]:
        """Returns to the first state."""
        super().reset(seed=seed)
        self._state = 0
        return self._seen(), {}

    def step(self, action: Actions) -> tuple[Seen, float, bool, bool, Info]:
        """Chooses a game, or plays it."""
        first, second = (int(each) for each in action)
        if self._state == 0:
            self._state = 1 + first
            return self._seen(), 0.0, False, False, {}
        return self._seen(), float(_PAYOFF[self._state - 1, first, second]), True, False, {}

    def _seen(self) -> Seen:
        state = np.zeros(3, np.float32)
        state[self._state] = 1
        return {"obs": np.stack([state, state]), "state": state}
