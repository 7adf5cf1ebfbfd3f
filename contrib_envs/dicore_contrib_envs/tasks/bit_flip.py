"""Bit flipping, a task with goals and the sparsest of rewards."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Dict, Discrete, MultiBinary

from dicore_contrib_envs.tasks.drawing import picture

Bits = npt.NDArray[np.int8]


class BitFlip(gymnasium.Env[dict[str, Bits], np.int64]):
    """Flip one of n bits per step until they equal a goal (Andrychowicz et al. 2017, section 3.1).

    Observations are a dict of `observation` and `achieved_goal`, the bits, and `desired_goal`, all
    int8 [n]. The reward is -1; with the goal, which terminates the episode, it is 1 higher, that
    is 0. After n steps the episode is truncated. Bits and goal differ at the start.

    Args:
        n_bits: n.
        step_reward: Reward of a step that does not reach the goal.
        render_mode: None or `rgb_array`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 - see gymnasium.Env

    def __init__(
        self, n_bits: int = 8, step_reward: float = -1.0, render_mode: str | None = None
    ) -> None:
        self.render_mode = render_mode
        parts = ("observation", "achieved_goal", "desired_goal")
        self.observation_space: Any = Dict({name: MultiBinary(n_bits) for name in parts})
        self.action_space = Discrete(n_bits)
        self._n = n_bits
        self._step_reward = step_reward
        self._bits = self._goal = np.zeros(n_bits, np.int8)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Bits], dict[str, Any]]:
        """Draws bits and a goal that differs from them."""
        super().reset(seed=seed)
        self._bits = self.np_random.integers(0, 2, self._n, np.int8)
        wrong = 0
        while not wrong:
            self._goal = self.np_random.integers(0, 2, self._n, np.int8)
            wrong = int((self._bits != self._goal).sum())
        self._steps = 0
        return self._observation(), {"is_success": False}

    def step(self, action: np.int64) -> tuple[dict[str, Bits], float, bool, bool, dict[str, Any]]:
        """Flips one bit."""
        self._bits[action] ^= 1
        self._steps += 1
        obs = self._observation()
        info: dict[str, Any] = {}
        goals = obs["achieved_goal"], obs["desired_goal"], info
        reward, success = float(self.compute_reward(*goals)), bool(self.compute_terminated(*goals))
        truncated = not success and self._steps >= self._n
        return obs, reward, success, truncated, {"is_success": success}

    def compute_reward(
        self, achieved_goal: Any, desired_goal: Any, info: Any
    ) -> npt.NDArray[np.float32]:
        """Returns the rewards float32 [...] of achieved and desired goals [..., n].

        With it, hindsight experience replay computes the rewards of other goals; `info` is unused.
        """
        reached = self.compute_terminated(achieved_goal, desired_goal, info)
        return self._step_reward + np.asarray(reached, np.float32)

    def compute_terminated(
        self, achieved_goal: Any, desired_goal: Any, info: Any
    ) -> npt.NDArray[np.bool_]:
        """Returns whether goals [..., n] are reached, which ends the episode: bool [...]."""
        reached: npt.NDArray[np.bool_]
        reached = (np.asarray(achieved_goal) == np.asarray(desired_goal)).all(-1)
        return reached

    def render(self) -> npt.NDArray[np.uint8]:
        """Draws the bits above the goal."""
        return picture(np.stack([self._bits * 2, self._goal * 4]))

    def _observation(self) -> dict[str, Bits]:
        return {
            "observation": self._bits.copy(),
            "achieved_goal": self._bits.copy(),
            "desired_goal": self._goal.copy(),
        }


def optimal_return(n_bits: int, step_reward: float = -1.0) -> float:
    """Returns the mean return of the best policy, which flips the wrong bits: 1 - E[wrong bits]."""
    return 1 + step_reward * n_bits / 2 / (1 - 0.5**n_bits)
