"""A maze as an environment, breadth-first search in it, and demonstrations by this search.

Shapes: S cells of a side, L steps of a search.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from dicore.errors import UsageError
from dicore_plugins.datasets import write_npz

if TYPE_CHECKING:
    from dicore.data import Info

__all__ = ["Maze", "breadth_first", "write_maze_demonstrations"]

Cells = npt.NDArray[np.uint8]

_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""Rows and columns of the actions up, down, left and right."""
WALL, GOAL, AGENT = range(3)
"""Channels of an observation."""


def breadth_first(obs: Cells) -> Cells:
    """Searches from the goal of a maze until the agent is found.

    A cell is 0 before it was visited; the goal is 5; others get 1 + the action that leads nearer to
    the goal, the first one of several.

    Args:
        obs: uint8 [S, S, 3]; 1 for walls, the goal and the agent, in this order.

    Returns:
        uint8 [L, S, S]; the cells after each step. The first one marks the goal.
    """
    found, size = np.zeros(obs.shape[:2], np.uint8), len(obs)
    agent = tuple(np.argwhere(obs[..., AGENT])[0])
    frontier = [tuple(np.argwhere(obs[..., GOAL])[0])]
    found[frontier[0]] = 1 + len(_MOVES)
    steps = [found.copy()]
    while frontier and not found[agent]:
        wave: dict[tuple[int, int], int] = {}
        for row, column in frontier:
            for action, (down, right) in enumerate(_MOVES):
                cell = row - down, column - right  # from where the action leads here
                inside = 0 <= cell[0] < size and 0 <= cell[1] < size
                if inside and not obs[(*cell, WALL)] and not found[cell]:
                    wave[cell] = min(wave.get(cell, action), action)
        for cell, action in wave.items():
            found[cell] = 1 + action
        frontier = [*wave]
        steps.append(found.copy())
    return np.stack(steps)


class Maze(gymnasium.Env[Cells, np.int64]):
    """Walks to a goal between walls, which are drawn anew for each episode.

    Observations are uint8 [S, S, 3]: 1 for walls, the goal and the agent. A move into a wall does
    nothing; reaching the goal gives 1 and ends the episode, which has at most 4 S steps.

    Args:
        size: S.
        density: Probability that a cell is a wall.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 - see gymnasium.Env

    def __init__(self, size: int = 8, density: float = 0.3) -> None:
        self.render_mode = "rgb_array"
        self.observation_space = Box(0, 1, (size, size, 3), np.uint8)
        self.action_space = Discrete(len(_MOVES))
        self._size, self._density = size, density
        self._cells = np.zeros((size, size, 3), np.uint8)
        self._at, self._steps = (0, 0), 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Cells, Info]:
        """Draws a maze, in which the goal can be reached."""
        super().reset(seed=seed)
        self._steps = 0
        while True:
            self._cells[:] = 0
            self._cells[..., WALL] = self.np_random.random((self._size,) * 2) < self._density
            free = np.argwhere(self._cells[..., WALL] == 0)
            if len(free) < 2:
                continue
            goal, agent = self.np_random.choice(len(free), 2, replace=False)
            self._cells[(*free[goal], GOAL)] = self._cells[(*free[agent], AGENT)] = 1
            self._at = int(free[agent][0]), int(free[agent][1])
            if breadth_first(self._cells)[-1][self._at]:
                return self._cells.copy(), {}

    def step(self, action: np.int64) -> tuple[Cells, float, bool, bool, Info]:
        """Moves by one cell."""
        self._steps += 1
        down, right = _MOVES[int(action)]
        row, column = self._at[0] + down, self._at[1] + right
        inside = 0 <= row < self._size and 0 <= column < self._size
        if inside and not self._cells[row, column, WALL]:
            self._cells[(*self._at, AGENT)] = 0
            self._at = row, column
            self._cells[(*self._at, AGENT)] = 1
        reached = bool(self._cells[(*self._at, GOAL)])
        over = self._steps >= 4 * self._size
        return self._cells.copy(), float(reached), reached, over, {"is_success": reached}

    def render(self) -> npt.NDArray[np.uint8]:
        """Draws walls black, the goal green and the agent red; 16 pixels a cell."""
        image = np.full((self._size, self._size, 3), 255, np.uint8)
        for channel, colour in enumerate(((0, 0, 0), (0, 160, 0), (200, 0, 0))):
            image[self._cells[..., channel] > 0] = colour
        return image.repeat(16, 0).repeat(16, 1)


def write_maze_demonstrations(
    path: str | Path, n_episode: int, *, size: int = 8, density: float = 0.3, seed: int = 0
) -> int:
    """Writes episodes of shortest paths, with the steps of the searches that found them.

    Args:
        path: The `.npz` file; an existing one is replaced.
        n_episode: Number of mazes.
        size: S.
        density: Probability that a cell is a wall.
        seed: Of the mazes.

    Returns:
        The number of samples. They have `obs`, `action`, `reward`, `terminated`, `truncated`, and
        `procedure` uint8 [L, S, S], see `breadth_first`, of which the last step is repeated.

    Raises:
        UsageError: `n_episode` is not positive.
    """
    if n_episode < 1:
        raise UsageError(f"n_episode must be >= 1, got {n_episode}")
    env, rows = Maze(size, density), list[dict[str, Any]]()
    for episode in range(n_episode):
        obs, _ = env.reset(seed=seed if episode == 0 else None)
        over = False
        while not over:
            steps = breadth_first(obs)
            agent = tuple(np.argwhere(obs[..., AGENT])[0])
            action = int(steps[-1][agent]) - 1
            after, reward, over, _, _ = env.step(np.int64(action))
            rows.append({"obs": obs, "action": action, "reward": np.float32(reward),
                         "terminated": over, "truncated": False, "procedure": steps})  # fmt: skip
            obs = after
    length = max(len(each["procedure"]) for each in rows)
    for each in rows:
        steps = each["procedure"]
        each["procedure"] = np.concatenate([steps, steps[-1:].repeat(length - len(steps), 0)])
    columns = {key: np.stack([each[key] for each in rows]) for key in rows[0]}
    write_npz(path, columns, env.observation_space, env.action_space)
    return len(rows)
