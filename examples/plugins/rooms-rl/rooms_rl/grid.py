"""Grid worlds that are drawn as text: a world of its own is a class with a `plan`.

Shapes: H rows and W columns of cells.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

__all__ = ["FourRooms", "Grid", "KeyDoor", "TwoRooms"]

MOVES = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])
"""Right, down, left, up, as (row, column)."""
COLOURS = {
    "#": (60, 60, 60),
    " ": (240, 240, 240),
    "E": (80, 180, 80),
    "K": (230, 190, 40),
    "D": (150, 90, 40),
}
AGENT = (200, 60, 60)


class Grid(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Walk through rooms to the exit: reward 1 there, minus a cost per step.

    Cells are walls `#`, free cells, the exit `E`, a key `K`, and a door `D`, which is a wall to
    those without the key. Episodes begin in any free cell left of the exit's room.

    Observation: row and column scaled to [0, 1], and whether the key is held: float32 [3].
    Actions: right, down, left, up.

    Args:
        step_cost: Subtracted from the reward at each step.
        max_steps: Time limit: the episode is truncated after this number of steps.
        slip: Probability that a random move is made instead of the chosen one.
        render_mode: `rgb_array` for frames.

    Attributes:
        at: Row and column of the agent, int64 [2].
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012 - as Env has it
    plan: ClassVar[tuple[str, ...]]
    """The cells, H lines of W characters."""

    def __init__(
        self,
        step_cost: float = 0.01,
        max_steps: int = 100,
        slip: float = 0.0,
        render_mode: str | None = None,
    ) -> None:
        self._step_cost, self._max_steps, self._slip = step_cost, max_steps, slip
        self.render_mode = render_mode
        self._cells = np.array([list(line) for line in self.plan])
        self._free = np.argwhere(self._cells == " ")
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (3,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(len(MOVES))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)  # seeds self.np_random, the only random generator
        exit_column = int(np.argwhere(self._cells == "E")[0, 1])
        starts = self._free[self._free[:, 1] < exit_column // 2 + 1]
        self.at = starts[self.np_random.integers(len(starts))]
        self._has_key, self._steps = False, 0
        return self._observation(), {}

    def step(
        self, action: np.int64
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        if self._slip and self.np_random.random() < self._slip:
            action = self.np_random.integers(len(MOVES))
        target = self.at + MOVES[action]
        cell = self._cells[tuple(target)]
        if cell != "#" and (cell != "D" or self._has_key):
            self.at = target
            self._has_key |= bool(cell == "K")
        self._steps += 1
        terminated = bool(self._cells[tuple(self.at)] == "E")
        truncated = self._steps >= self._max_steps  # a time limit is no terminal state
        return self._observation(), float(terminated) - self._step_cost, terminated, truncated, {}

    def render(self) -> NDArray[np.uint8]:
        """Returns a frame, uint8 [16 H, 16 W, 3]."""
        cells = np.array([[COLOURS[cell] for cell in row] for row in self._cells], np.uint8)
        if self._has_key:
            cells[self._cells == "K"] = COLOURS[" "]
        cells[tuple(self.at)] = AGENT
        return cells.repeat(16, 0).repeat(16, 1)

    def _observation(self) -> NDArray[np.float32]:
        row, column = self.at / (np.array(self._cells.shape) - 1)
        return np.array([row, column, self._has_key], np.float32)


class TwoRooms(Grid):
    """Two rooms with a gap between them."""

    plan = ("#########",
            "#   #   #",
            "#       #",
            "#   #  E#",
            "#########")  # fmt: skip


class FourRooms(Grid):
    """Four rooms (Sutton, Precup and Singh 1999, doi:10.1016/S0004-3702(99)00052-1)."""

    plan = ("#############",
            "#     #     #",
            "#     #     #",
            "#           #",
            "#     #     #",
            "#     #     #",
            "## ####     #",
            "#     ### ###",
            "#     #     #",
            "#     #     #",
            "#           #",
            "#     #    E#",
            "#############")  # fmt: skip


class KeyDoor(Grid):
    """The exit is behind a door; its key lies in the first room."""

    plan = ("#########",
            "#   #   #",
            "#K  D   #",
            "#   #  E#",
            "#########")  # fmt: skip
