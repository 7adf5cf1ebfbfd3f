"""Environments that write down what happens in them, and the samples that follow from it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

Step = dict[str, Any]


class Journal(gymnasium.Env[Any, Any]):
    """Episodes of drawn lengths, ended by turns by termination and by truncation.

    Args:
        steps: Gets every step in order.
        abnormal: The steps (counted from 1, over all episodes) marked abnormal; none ends.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, steps: list[Step], abnormal: tuple[int, ...] = ()) -> None:
        self.steps, self.abnormal = steps, abnormal
        self._count = self._episode = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._episode += 1
        self._left = int(self.np_random.integers(2, 8))
        self._obs = self.np_random.normal(size=2).astype(np.float32)
        return self._obs, {}

    def step(self, action: Any) -> Any:
        self._count += 1
        self._left -= 1
        before = self._obs
        self._obs = self.np_random.normal(size=2).astype(np.float32)
        reward = float(self.np_random.normal()) + int(action)
        bad = self._count in self.abnormal
        ended = self._left <= 0 and not bad
        terminated, truncated = ended and self._episode % 2 == 0, ended and self._episode % 2 == 1
        self.steps.append(
            {
                "obs": before,
                "next_obs": self._obs,
                "action": int(action),
                "reward": reward,
                "terminated": terminated,
                "end": ended,
                "abnormal": bad,
                "episode": self._episode,
            }
        )
        return self._obs, reward, terminated, truncated, {"abnormal": True} if bad else {}


def expected_samples(steps: list[Step], nstep: int, gamma: float) -> list[Step]:
    """Computes n-step samples of one environment, one step at a time, in doubles.

    The last n - 1 steps begin none; neither do those of episodes with an abnormal step.
    """
    spoilt = {step["episode"] for step in steps if step["abnormal"]}
    samples = []
    for start in range(len(steps) - nstep + 1):
        if steps[start]["episode"] in spoilt:
            continue
        reward, bridged = 0.0, 0
        for step in steps[start : start + nstep]:
            reward += gamma**bridged * step["reward"]
            bridged += 1
            if step["end"]:
                break
        samples.append(
            {
                "obs": steps[start]["obs"],
                "action": steps[start]["action"],
                "reward": reward,
                "next_obs": step["next_obs"],
                "done": float(step["terminated"]),
                "value_gamma": gamma**bridged,
            }
        )
    return samples
