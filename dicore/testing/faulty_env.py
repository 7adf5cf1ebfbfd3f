"""An environment that misbehaves once, in one of the ways that real ones do."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

__all__ = ["FAULTS", "FaultyEnv"]

FAULTS: Final[dict[str, str]] = {
    "": "nothing is wrong",
    "raises": "step raises an exception",
    "exits": "step calls sys.exit",
    "hangs": "step does not return",
    "killed": "the process of the environment is killed",
    "nan_obs": "an observation is NaN",
    "inf_obs": "an observation is too large for float32",
    "short_obs": "an observation has shape (1,) instead of (3,)",
    "long_obs": "an observation has shape (5,) instead of (3,)",
    "text_obs": "an observation is a text",
    "nan_reward": "a reward is NaN",
    "no_reward": "a reward is None",
    "four_results": "step returns four results",
    "list_info": "an info is a list",
    "lock_info": "an info does not pickle",
    "reset_raises": "reset raises an exception",
    "reset_hangs": "reset does not return",
    "close_hangs": "close does not return",
    "close_raises": "close raises an exception",
}
"""What goes wrong, by mode."""

HANGS_S = 60.0
RESULTS: Final[dict[str, tuple[int, object]]] = {
    "nan_obs": (0, np.array([np.nan, 0, 0], np.float32)),
    "inf_obs": (0, np.array([1e300, 0, 0])),
    "short_obs": (0, np.zeros(1, np.float32)),
    "long_obs": (0, np.zeros(5, np.float32)),
    "text_obs": (0, "observation"),
    "nan_reward": (1, float("nan")),
    "no_reward": (1, None),
    "list_info": (4, ["info"]),
}
"""Position in the results of `step`, and what is there instead."""


class FaultyEnv(gymnasium.Env[Any, Any]):
    """Goes wrong in one step or reset of one environment; works before and afterwards.

    Observations are float32 [3]: the rank and the number of the step; the reward is 1.

    Args:
        mode: A key of `FAULTS`.
        rank: The environment's number.
        step: Step in which it goes wrong, counted over all episodes.
        length: Steps in an episode.
        mark: A file that exists once it went wrong, so that an environment made again in another
            process does not repeat it; None: each object goes wrong once.
    """

    def __init__(
        self,
        mode: str = "",
        rank: int = 0,
        step: int = 3,
        length: int = 20,
        mark: str | None = None,
    ) -> None:
        self.observation_space = Box(-1e6, 1e6, (3,), np.float32)
        self.action_space = Discrete(2)
        self.mode, self.rank, self.at, self.length = mode, rank, step, length
        self._mark, self._done = mark, False
        self._count = self._step = 0

    def _due(self, *modes: str) -> bool:
        """Returns whether to go wrong now in one of these ways, and remembers it."""
        if self.mode not in modes or self._done or (self._mark and os.path.exists(self._mark)):  # noqa: PTH110 - cheap
            return False
        self._done = True
        if self._mark:
            with open(self._mark, "w", encoding="utf-8"):  # noqa: PTH123
                pass
        return True

    def reset(
        self, *, seed: int | None = None, options: object = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if self._count and self._due("reset_raises"):
            raise RuntimeError("planted failure of reset")
        if self._count and self._due("reset_hangs"):
            time.sleep(HANGS_S)
        self._step = 0
        return self._obs(), {}

    def step(self, action: object) -> Any:
        """Steps, and goes wrong as `mode` says if it is due."""
        self._step += 1
        self._count += 1
        result: list[Any] = [self._obs(), 1.0, self._step >= self.length, False, {}]
        if self._count < self.at or not self._due(*_OF_STEP):
            return tuple(result)
        if self.mode == "raises":
            raise ValueError("planted failure of step")
        if self.mode == "exits":
            sys.exit(3)
        if self.mode == "hangs":
            time.sleep(HANGS_S)
        if self.mode == "killed":
            import psutil

            psutil.Process().kill()
        if self.mode == "four_results":
            return tuple(result[:4])
        if self.mode == "lock_info":
            result[4] = {"lock": threading.Lock()}
        if self.mode in RESULTS:
            at, value = RESULTS[self.mode]
            result[at] = value
        return tuple(result)

    def close(self) -> None:
        if self.mode == "close_raises":
            raise RuntimeError("planted failure of close")
        if self.mode == "close_hangs":
            time.sleep(HANGS_S)

    def _obs(self) -> Any:
        return np.array([self.rank, self._step, 0], np.float32)


_OF_STEP = frozenset(FAULTS) - {"", "reset_raises", "reset_hangs", "close_raises", "close_hangs"}
