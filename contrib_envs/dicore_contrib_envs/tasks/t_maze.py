"""The T-maze, a memory task."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from dicore_contrib_envs.tasks.drawing import picture

Array = npt.NDArray[np.float32]
NORTH, EAST, SOUTH, WEST = range(4)
_SIGNS = {NORTH: (0, 1, 1), SOUTH: (1, 1, 0)}
_CORRIDOR, _JUNCTION = (1, 0, 1), (0, 1, 0)
_GOAL, _ELSE = 4.0, -0.1


class TMaze(gymnasium.Env[Array, np.int64]):
    """Walk down a corridor and turn to the side that a sign at its start named (Bakker 2002).

    Observations are float32 [3]: 011 or 110 at the start (go north or south at the junction), 101
    in the corridor, 010 at the junction. Actions are north, east, south and west. Turning at the
    junction terminates the episode, with reward 4 on the right side and -0.1 on the wrong one.
    Other steps are rewarded with 0, or with -0.1 against a wall. The best policy reaches 4; without
    memory 1.95.

    Args:
        length: Steps from the start to the junction.
        render_mode: None or `rgb_array`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012 - see gymnasium.Env

    def __init__(self, length: int = 10, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = Box(0.0, 1.0, (3,), np.float32)
        self.action_space = Discrete(4)
        self._length = length
        self._limit = 5 * length
        self._at = self._steps = 0
        self._goal = NORTH

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Draws the side of the goal."""
        super().reset(seed=seed)
        self._goal = NORTH if self.np_random.integers(2) else SOUTH
        self._at = self._steps = 0
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Moves by one place; turns at the junction."""
        self._steps += 1
        truncated = self._steps >= self._limit
        if self._at == self._length and action in (NORTH, SOUTH):
            right = bool(action == self._goal)
            reward = _GOAL if right else _ELSE
            return self._observation(), reward, True, False, {"is_success": right}
        moved = min(max(self._at + {EAST: 1, WEST: -1}.get(int(action), 0), 0), self._length)
        reward = 0.0 if moved != self._at else _ELSE
        self._at = moved
        return self._observation(), reward, False, truncated, {"is_success": False}

    def render(self) -> npt.NDArray[np.uint8]:
        """Draws the maze; the goal is green."""
        cells = np.zeros((3, self._length + 1), np.int64)
        cells[1], cells[:, -1] = 1, 1
        cells[0 if self._goal == NORTH else 2, -1] = 4
        cells[1, self._at] = 2
        return picture(cells)

    def _observation(self) -> Array:
        if self._at == 0:
            return np.array(_SIGNS[self._goal], np.float32)
        return np.array(_JUNCTION if self._at == self._length else _CORRIDOR, np.float32)
