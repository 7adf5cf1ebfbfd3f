"""The game of Nim with one heap, for two agents that act in turn."""

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


class Nim(gymnasium.Env[Array, npt.NDArray[np.int64]]):
    """Two agents take stones from a heap in turn; who takes the last one wins.

    The heap has at most `heap_max` stones, but no multiple of `most + 1`: agent 0, who begins, wins
    by leaving multiples. So does the scripted opponent; where it cannot, it takes one.

    Observations are float32 [2, heap_max + 1], for both agents one-hot the stones that are left.
    Actions are int64 [2], stones to take less 1; only that of the agent `to_play` counts, and who
    takes more than there are takes all. Rewards are float32 [2]: 1 and -1 at the end.

    Args:
        heap_max: Largest heap.
        most: Stones that may be taken at once.
        render_mode: None or `rgb_array`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}  # noqa: RUF012 - see gymnasium.Env

    def __init__(self, heap_max: int = 21, most: int = 3, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._shape = 2, heap_max + 1
        self.observation_space = Box(0.0, 1.0, self._shape, np.float32)
        self.action_space = MultiDiscrete([most, most])
        self.reward_space = Box(-1.0, 1.0, (2,), np.float32)
        heaps = np.arange(most + 2, heap_max + 1)
        self._heaps, self._most = heaps[heaps % (most + 1) > 0], most
        self.left = self.to_play = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Makes a heap; agent 0 begins."""
        super().reset(seed=seed)
        self.left, self.to_play = int(self.np_random.choice(self._heaps)), 0
        return self._observation(), {}

    def step(self, action: Tree) -> tuple[Array, Array, bool, bool, dict[str, Any]]:
        """Takes stones for the agent that is to play."""
        mover = self.to_play
        self.left -= min(self.left, int(action[mover]) + 1)
        reward = np.zeros(2, np.float32)
        if self.left == 0:
            reward[:] = -1.0
            reward[mover] = 1.0
        self.to_play = 1 - mover
        return self._observation(), reward, self.left == 0, False, {}

    def scripted_action(self, side: int) -> np.int64:
        """Returns the best action of an agent; where all lose, it takes one stone."""
        return np.int64(max(0, self.left % (self._most + 1) - 1))

    def render(self) -> npt.NDArray[np.uint8]:
        """Draws the stones."""
        row = [2 + self.to_play] + [4] * self.left
        cells = row + [0] * (self._shape[1] - len(row))
        return picture([cells], scale=16)

    def _observation(self) -> Array:
        obs = np.zeros(self._shape, np.float32)
        obs[:, self.left] = 1
        return obs
