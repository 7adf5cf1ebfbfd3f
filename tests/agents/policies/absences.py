"""Games in which agents leave or wait, so that nobody acts for a time while the episode goes on.

Choosing 1 in the first step forgoes 0.1 and pays 1 in the last step. One number pays all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

from dicore.run.launch import launch


class AllLeave(gymnasium.Env[Any, Any]):
    """Both agents leave for good if the hero chooses 1."""

    agent_ids = ("hero", "other")
    action_space: Any = MultiDiscrete([2, 2])
    reward_space: Any = Box(-1, 1, (), np.float32)
    steps: ClassVar[int] = 2

    def __init__(self) -> None:
        width = self.steps + 2
        seen = Box(0, 1, (2, width), np.float32)
        self.state_space: Any = Box(0, 1, (width,), np.float32)
        self.observation_space: Any = Dict(obs=seen, alive=MultiBinary(2), state=self.state_space)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.step_count, self.chose = 0, False
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Any]:
        reward = 0.0
        if self.step_count == 0:
            self.chose = bool(action[0] == 1)
            reward = 0.0 if self.chose else 0.1
        self.step_count += 1
        over = self.step_count == self.steps
        return self._seen(), 1.0 if over and self.chose else reward, over, False, {}

    def acting(self) -> list[bool]:
        """Returns which agents act in the next step of the episode."""
        return [not self.chose] * 2

    def _seen(self) -> Any:
        over = self.step_count == self.steps
        alive = np.array([0, 0] if over else self.acting(), np.int8)
        row = np.zeros(self.steps + 2, np.float32)
        row[self.step_count], row[-1] = 1, self.chose
        return {"obs": np.stack([row, row]) * alive[:, None], "alive": alive, "state": row}


class HeroLeaves(AllLeave):
    """The hero leaves for good, the other stays; an episode is longer than a block."""

    steps = 8

    def acting(self) -> list[bool]:
        """Returns which agents act in the next step of the episode."""
        return [not self.chose, True]


class Pause(AllLeave):
    """Nobody acts in the second step of three, then all come back."""

    steps = 3

    def acting(self) -> list[bool]:
        """Returns which agents act in the next step of the episode."""
        return [self.step_count != 1] * 2


class LongPause(Pause):
    """Nobody acts but in the first step and in the last one; an episode is longer than a block."""

    steps = 8

    def acting(self) -> list[bool]:
        """Returns which agents act in the next step of the episode."""
        return [self.step_count in (0, self.steps - 1)] * 2


def learned_return(
    name: str, env: type[Any], folder: Path, steps: int, *more: str, seed: int = 0
) -> float:
    """Trains, and returns what the greedy policy that was learned earns in one episode.

    The first policy may be as good, so that the best return of a run tells nothing.
    """
    found = launch(
        env=f"{env.__module__}:{env.__name__}", policy=name, seed=seed, exp_name=str(folder),
        max_env_step=steps,
        overrides=["policy.collect.n_sample=32", "env.collector_env_num=8",
                   "env.evaluator_env_num=1", "env.n_evaluator_episode=1", "env.stop_value=inf",
                   "pipeline.logger=[]", *more],
    )  # fmt: skip
    made = env()
    obs, total, over = made.reset()[0], 0.0, False
    found.policy.eval_mode.reset()
    while not over:
        action = found.policy.eval_mode.forward({0: obs})[0]["action"]
        obs, reward, over, *_ = made.step(np.asarray(action))
        total += float(np.sum(reward))
    return total
