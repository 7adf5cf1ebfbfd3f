"""An environment that follows a script and records its calls.

It works in any process: the journal is a file that all copies append to.
"""

from __future__ import annotations

import copy
import sys
import zlib
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Literal

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from dicore.values import Info, Tree

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

__all__ = ["ScriptedEnv", "SpacedEnv"]

Fault = Literal[
    "", "step", "shape", "nan", "reward", "reward_shape", "reset", "exit", "hang", "close"
]


HANGS_S = 60.0
WAKE = Event()
"""Set it to end all hangs in this process."""


class ScriptedEnv(gymnasium.Env[npt.NDArray[np.float32], Any]):
    """Episodes of a given length; the reward is the action plus a half.

    Observations are float32 [4]: a number drawn at reset, the tag, the level, the step.

    Args:
        tag: Tells this environment from others.
        length: Steps in an episode.
        end: How episodes end.
        fault: What goes wrong at the third step of the first episode (`reset`, `close`: whenever
            it is called; `hang`, `close`: it does not return for a minute).
        journal: A file that gets a line for each thing done: `made`, `reset`, `close`.
        objectives: With K of them, the reward is a vector: that reward times 1, …, K.
    """

    method_for_all = "scripted"

    def __init__(
        self,
        tag: int = 0,
        length: int = 5,
        end: Literal["terminated", "truncated"] = "terminated",
        fault: Fault = "",
        journal: Path | None = None,
        objectives: int = 0,
    ) -> None:
        self.observation_space = Box(-np.inf, np.inf, (4,), np.float32)
        self._objectives = np.arange(1, objectives + 1)
        if objectives:
            self.reward_space = Box(-np.inf, np.inf, (objectives,), np.float32)
        self.action_space = Discrete(3)
        self.tag, self.length, self.end = tag, length, end
        self.fault: Fault = fault
        self.level = 0
        self._journal = journal
        self._episode = -1
        self._step = 0
        self._drawn = 0.0
        self._note("made")

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None, level: int = 0
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self._note(f"reset seed={seed} level={level}")
        if self.fault == "reset":
            raise RuntimeError("planted failure of reset")
        self._episode += 1
        self._step, self.level = 0, level
        self._drawn = float(self.np_random.random())
        return self._obs(), {}

    def step(self, action: Tree) -> tuple[npt.NDArray[np.float32], Any, bool, bool, dict[str, Any]]:
        self._step += 1
        fault = self.fault if self._episode == 0 and self._step == 3 else ""
        if fault == "step":
            raise RuntimeError("planted failure of step")
        if fault == "exit":
            sys.exit("planted exit")
        if fault == "hang":
            WAKE.wait(HANGS_S)
        ended = self._step >= self.length
        obs = self._obs()
        if fault == "shape":
            obs = obs[:3]
        if fault == "nan":
            obs[1] = np.nan
        reward = float("nan") if fault == "reward" else float(action) + 0.5
        terminated, truncated = (
            ended and self.end == "terminated",
            ended and self.end == "truncated",
        )
        return obs, self._paid(reward, fault), terminated, truncated, {"step": self._step}

    def _paid(self, reward: float, fault: str) -> object:
        if not len(self._objectives):
            return reward
        vector = reward * self._objectives
        return vector[:1] if fault == "reward_shape" else vector

    def close(self) -> None:
        self._note("close")
        if self.fault == "close":
            WAKE.wait(HANGS_S)

    def _obs(self) -> npt.NDArray[np.float32]:
        return np.array([self._drawn, self.tag, self.level, self._step], np.float32)

    def _note(self, line: str) -> None:
        if self._journal is not None:
            with self._journal.open("a", encoding="utf-8") as file:
                file.write(f"{self.tag} {line}\n")


class SpacedEnv(gymnasium.Env[Any, Any]):
    """Returns samples of an observation space that depend on the seed and on all actions.

    Args:
        observation_space: Any space of gymnasium.
        action_space: Any space of gymnasium.
        length: Steps in an episode.
    """

    def __init__(self, observation_space: Space, action_space: Space, length: int = 5) -> None:
        # copies: sampling changes a space, and environments may be stepped at the same time
        self.observation_space, self.action_space = copy.deepcopy((observation_space, action_space))
        self.length = length
        self._step = 0
        self._hash = 0

    def reset(
        self, *, seed: int | None = None, options: object = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._step, self._hash = 0, int(self.np_random.integers(2**31))
        return self._obs(), {}

    def step(self, action: object) -> tuple[Tree, float, bool, bool, Info]:
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        self._step += 1
        flat = np.asarray(gymnasium.spaces.flatten(self.action_space, action))
        self._hash = zlib.crc32(flat.tobytes(), self._hash)
        return self._obs(), self._hash % 7 / 4, self._step >= self.length, False, {}

    def _obs(self) -> Any:
        self.observation_space.seed(self._hash % 2**31)
        return self.observation_space.sample()
