"""A task whose actions are a kind and its continuous arguments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from dicore_contrib_envs.tasks.drawing import picture

if TYPE_CHECKING:
    from dicore.data import Tree


Array = npt.NDArray[np.float32]
TURN, MOVE, STOP = range(3)
STRIDE = 0.4
"""Longest move; the field is 2 wide."""
RADIUS = 0.1
"""Radius of the target."""
STEP_COST = 0.01
_BOUNDS = np.array([[-1.0] * 6 + [0.0, 0.0], [1.0] * 6 + [3.0, 1.0]], np.float32)
"""Lowest and highest observation; no two points are 3 apart."""


class Moving(gymnasium.Env[Array, Any]):
    """Turn, move and stop on a target: hybrid actions in the style of Masson et al. 2016.

    Observations are float32 [8], as those of the package gym-hybrid: position, cosine and sine of
    the heading, position of the target, in a field from -1 to 1; distance to the target, and 1
    within its radius, else 0. Actions are a dict of `action_type` (0 turn, 1 move, 2 stop) and
    `action_args`, float32 [2] in -1 to 1: the angle in units of pi, and the distance, from 0 at -1
    to 0.4 at 1. The reward of a step is the distance gained minus 0.01; stopping terminates the
    episode with 1 more within 0.1 of the target and 1 less elsewhere. `optimal_return` of the info
    of `reset` is the best return of the episode.

    Args:
        bins: Discretise both arguments: actions are then int64 [3], the kind and the numbers of two
            out of `bins` values from -1 to 1. None: dict actions.
        render_mode: None or `rgb_array`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 - see gymnasium.Env

    def __init__(self, bins: int | None = None, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = Box(*_BOUNDS, dtype=np.float32)
        self.action_space = (
            Dict({"action_type": Discrete(3), "action_args": Box(-1.0, 1.0, (2,), np.float32)})
            if bins is None
            else MultiDiscrete([3, bins, bins])
        )
        self._values = None if bins is None else np.linspace(-1, 1, bins)
        self._at = self._target = np.zeros(2)
        self._heading = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Draws position, heading and a target outside of its radius."""
        super().reset(seed=seed)
        self._at = self.np_random.uniform(-1, 1, 2)
        self._heading = float(self.np_random.uniform(-math.pi, math.pi))
        self._target = self.np_random.uniform(-1, 1, 2)
        while self._distance() <= RADIUS:
            self._target = self.np_random.uniform(-1, 1, 2)
        return self._observation(), {"optimal_return": self.optimal_return()}

    def step(self, action: Tree) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Turns, moves or stops."""
        kind, (turn, stride) = self._parts(action)
        before = self._distance()
        if kind == TURN:
            self._heading = math.remainder(self._heading + math.pi * turn, 2 * math.pi)
        elif kind == MOVE:
            direction = np.array([math.cos(self._heading), math.sin(self._heading)])
            self._at = np.clip(self._at + direction * STRIDE * (stride + 1) / 2, -1, 1)
        reward = before - self._distance() - STEP_COST
        reached = self._distance() <= RADIUS
        if kind == STOP:
            reward += 1.0 if reached else -1.0
        info = {"is_success": kind == STOP and reached}
        return self._observation(), reward, kind == STOP, False, info

    def optimal_return(self) -> float:
        """Returns the best return from here: turn to the target or not, move k times, stop."""
        start, off = self._distance(), self._bearing()
        best = -math.inf
        for moves in range(math.ceil(start / STRIDE) + 1):
            reach = STRIDE * moves
            straight = max(start - reach, 0.0)
            along = min(max(start * math.cos(off), 0.0), reach)
            ahead = math.hypot(start * math.cos(off) - along, start * math.sin(off))
            for turns, end in ((1, straight), (0, ahead)):
                bonus = 1.0 if end <= RADIUS else -1.0
                best = max(best, start - end + bonus - STEP_COST * (turns + moves + 1))
        return best

    def render(self) -> npt.NDArray[np.uint8]:
        """Draws the field; the target is green, the white end of the agent points ahead."""
        cells = np.zeros((64, 64), np.int64)
        y, x = np.mgrid[1:-1:64j, -1:1:64j]
        nose = self._at + 0.08 * np.array([math.cos(self._heading), math.sin(self._heading)])
        for colour, (px, py), radius in ((4, self._target, RADIUS), (2, self._at, 0.07),
                                         (1, nose, 0.04)):  # fmt: skip
            cells[(x - px) ** 2 + (y - py) ** 2 <= radius**2] = colour
        return picture(cells, scale=4)

    def _parts(self, action: Tree) -> tuple[int, tuple[float, float]]:
        if self._values is None:
            turn, stride = action["action_args"]
            return int(action["action_type"]), (float(turn), float(stride))
        kind, turn, stride = (int(each) for each in action)
        return kind, (float(self._values[turn]), float(self._values[stride]))

    def _distance(self) -> float:
        return float(np.hypot(*(self._target - self._at)))

    def _bearing(self) -> float:
        """Returns the angle from the heading to the target [rad]."""
        x, y = self._target - self._at
        return math.remainder(math.atan2(y, x) - self._heading, 2 * math.pi)

    def _observation(self) -> Array:
        heading, distance = (math.cos(self._heading), math.sin(self._heading)), self._distance()
        seen = [*self._at, *heading, *self._target, distance, distance <= RADIUS]
        return np.array(seen, np.float32)
