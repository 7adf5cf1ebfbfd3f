"""Breakout on a 10 x 10 grid."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from dicore_contrib_envs.tasks.drawing import picture

Image = npt.NDArray[np.uint8]
SIZE = 10
PADDLE, BALL, TRAIL, BRICK = range(4)
_BRICK_ROWS = slice(1, 4)
_BOTTOM = SIZE - 1


class MiniBreakout(gymnasium.Env[Image, np.int64]):
    """Breakout with the rules of MinAtar (Young and Tian 2019).

    Observations are uint8 [10, 10, 4]: paddle, ball, last place of the ball, bricks. Actions are
    stay, left and right. The ball moves diagonally and bounces off walls, bricks and the paddle;
    each brick is rewarded with 1, and new ones come when all are gone. Missing the ball terminates
    the episode, so returns have no upper bound but the time limit.

    Args:
        sticky_action_probability: Probability of repeating the previous action.
        render_mode: None or `rgb_array`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - see gymnasium.Env

    def __init__(
        self, sticky_action_probability: float = 0.1, render_mode: str | None = None
    ) -> None:
        self.render_mode = render_mode
        self.observation_space = Box(0, 1, (SIZE, SIZE, 4), np.uint8)
        self.action_space = Discrete(3)
        self._sticky = sticky_action_probability
        self._bricks = np.zeros((SIZE, SIZE), bool)
        self._paddle, self._last_action = SIZE // 2, 0
        self._ball = self._trail = (0, 3)  # x, y
        self._dx = self._dy = 1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Image, dict[str, Any]]:
        """Places the ball at the left or right wall, moving down."""
        super().reset(seed=seed)
        left = bool(self.np_random.integers(2))
        self._ball = self._trail = (0 if left else SIZE - 1, 3)
        self._dx, self._dy = (1 if left else -1), 1
        self._paddle, self._last_action = SIZE // 2, 0
        self._bricks[:] = False
        self._bricks[_BRICK_ROWS] = True
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        """Moves the paddle, then the ball."""
        chosen = int(action)
        if self.np_random.random() < self._sticky:
            chosen = self._last_action
        self._last_action = chosen
        self._paddle = min(max(self._paddle + (0, -1, 1)[chosen], 0), SIZE - 1)
        reward, missed = self._move_ball()
        return self._observation(), reward, missed, False, {}

    def render(self) -> npt.NDArray[np.uint8]:
        """Draws the grid."""
        cells = self._bricks * 5
        cells[self._trail[1], self._trail[0]] = 3
        cells[self._ball[1], self._ball[0]] = 1
        cells[_BOTTOM, self._paddle] = 2
        return picture(cells)

    def _move_ball(self) -> tuple[float, bool]:
        """Returns the reward, and whether the ball is lost."""
        (x, y), reward = self._ball, 0.0
        self._trail = x, y
        if not 0 <= x + self._dx < SIZE:
            self._dx = -self._dx
        if y + self._dy < 0:
            self._dy = 1
        to_x, to_y = x + self._dx, y + self._dy
        if self._bricks[to_y, to_x]:
            self._bricks[to_y, to_x] = False
            reward, self._dy, to_y = 1.0, -self._dy, y
        elif to_y == _BOTTOM:
            if not self._bricks.any():
                self._bricks[_BRICK_ROWS] = True
            if to_x == self._paddle:
                self._dy, to_y = -1, y
            elif x == self._paddle:  # hit at the corner: the ball returns the way it came
                self._dx, self._dy, to_x, to_y = -self._dx, -1, x, y
            else:
                self._ball = to_x, to_y
                return reward, True
        self._ball = to_x, to_y
        return reward, False

    def _observation(self) -> Image:
        image = np.zeros((SIZE, SIZE, 4), np.uint8)
        image[_BOTTOM, self._paddle, PADDLE] = 1
        image[self._ball[1], self._ball[0], BALL] = 1
        image[self._trail[1], self._trail[0], TRAIL] = 1
        image[:, :, BRICK] = self._bricks
        return image
