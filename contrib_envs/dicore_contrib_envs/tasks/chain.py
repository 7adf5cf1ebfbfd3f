"""A chain whose far end pays, for deep exploration."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from dicore_contrib_envs.tasks.drawing import picture

Array = npt.NDArray[np.float32]
_SMALL = 0.001


class Chain(gymnasium.Env[Array, np.int64]):
    """Walk to the end of a chain of N states (Osband et al. 2016, arXiv:1602.04621, section 5.1).

    An episode begins in the second state and is truncated after N + 7 steps. In each state, one of
    the two actions leads on and the other one back; which is which was drawn once and never changes
    (as in `deep_sea` of bsuite), so that no habit leads to the end. Each step into the last state,
    or within it, is rewarded with 1, each one into the first with 0.001, others with 0: the best
    return is 10. Random actions reach the last state in about one of 2^N episodes.

    Observations are float32 [N], one-hot.

    Attributes:
        onward: int64 [N]; the action that leads on in each state.

    Args:
        length: N.
        render_mode: None or `rgb_array`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012 - see gymnasium.Env

    def __init__(self, length: int = 30, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = Box(0.0, 1.0, (length,), np.float32)
        self.action_space = Discrete(2)
        self._length = length
        self.onward = np.random.default_rng(0).integers(0, 2, length)
        self._at = self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Returns to the second state."""
        super().reset(seed=seed)
        self._at, self._steps = 1, 0
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Moves by one state."""
        self._steps += 1
        last = self._length - 1
        step = 1 if action == self.onward[self._at] else -1
        self._at = min(max(self._at + step, 0), last)
        reward = 1.0 if self._at == last else _SMALL if self._at == 0 else 0.0
        truncated = self._steps >= self._length + 7
        return self._observation(), reward, False, truncated, {"is_success": self._at == last}

    def render(self) -> npt.NDArray[np.uint8]:
        """Draws the chain; its end is green."""
        cells = np.ones((1, self._length), np.int64)
        cells[0, -1], cells[0, self._at] = 4, 2
        return picture(cells)

    def _observation(self) -> Array:
        obs: Array = (np.arange(self._length) == self._at).astype(np.float32)
        return obs
