"""The two-step game, for two agents that share a reward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, MultiDiscrete

from dicore_contrib_envs.tasks.drawing import picture

if TYPE_CHECKING:
    from dicore.data import Tree


Array = npt.NDArray[np.float32]
PAYOFF = np.array([[[7, 7], [7, 7]], [[0, 1], [1, 8]]], np.float32)
"""Rewards of the second step [game, action of agent 0, action of agent 1]."""


class TwoStep(gymnasium.Env[Array, npt.NDArray[np.int64]]):
    """Two agents choose a game and then play it (Rashid et al. 2018, section 5).

    In the first step, the action of agent 0 chooses the game and the reward is 0. In the second,
    game 0 pays 7 whatever the agents do; game 1 pays 8 if both choose action 1, 1 if one does and 0
    if none does. The best return is 8. Agents whose values are added (VDN) learn to play game 0.

    Observations are float32 [2, 5], one row per agent: one-hot the state (start, game 0, game 1)
    and the agent. Actions are int64 [2]. Each agent receives the payoff: rewards are float32 [2].

    Args:
        team_reward: Return the payoff as one number.
        render_mode: None or `rgb_array`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}  # noqa: RUF012 - see gymnasium.Env

    def __init__(self, team_reward: bool = False, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = Box(0.0, 1.0, (2, 5), np.float32)
        self.action_space = MultiDiscrete([2, 2])
        self.reward_space = Box(0.0, 8.0, () if team_reward else (2,), np.float32)
        self._team_reward = team_reward
        self._state = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Returns to the first step."""
        super().reset(seed=seed)
        self._state = 0
        return self._observation(), {}

    def step(self, action: Tree) -> tuple[Array, Any, bool, bool, dict[str, Any]]:
        """Chooses a game, or plays it."""
        first, second = (int(each) for each in action)
        terminated = self._state > 0
        payoff = float(PAYOFF[self._state - 1, first, second]) if terminated else 0.0
        if not terminated:
            self._state = 1 + first
        reward = payoff if self._team_reward else np.full(2, payoff, np.float32)
        return self._observation(), reward, terminated, False, {}

    def render(self) -> npt.NDArray[np.uint8]:
        """Draws the payoffs of the game; brighter is more at the start."""
        if self._state == 0:
            return picture([[2, 3]], scale=32)
        return picture(np.where(PAYOFF[self._state - 1] >= 7, 4, 5), scale=32)

    def _observation(self) -> Array:
        obs = np.zeros((2, 5), np.float32)
        obs[:, self._state] = 1
        obs[:, 3:] = np.eye(2)
        return obs
