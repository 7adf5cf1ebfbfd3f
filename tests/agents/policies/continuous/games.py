"""Games of two agents and one step, whose best actions are known."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

SMALL = ("policy.model.hidden_size_list=[16]", "policy.model.critic_hidden_size_list=[32]")
PAIR = ("left", "right")


class Halves(gymnasium.Env[Any, Any]):
    """Each of two agents sees one half of c; the reward of both is -(a_1 + a_2 - c)^2."""

    agent_ids = PAIR
    observation_space: Any = Dict(obs=Box(-1, 1, (2, 1), np.float32))
    action_space: Any = Box(-2.0, 2.0, (2, 1), np.float32)

    def _seen(self) -> Any:
        self.halves = self.np_random.uniform(-1, 1, (2, 1)).astype(np.float32)
        return {"obs": self.halves}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        reward = -float(np.square(np.sum(action) - self.halves.sum()))
        return self._seen(), reward, True, False, {}


class Matrix(gymnasium.Env[Any, Any]):
    """Both agents get the entry of a matrix, 8 for actions 0 and 1; a mask forbids action 3."""

    agent_ids = PAIR
    payoff = np.array([[0, 8, 2], [3, 0, 0], [0, 2, 1]])
    observation_space: Any = Dict(
        obs=Box(0, 1, (2, 1), np.float32), action_mask=MultiBinary([2, 4])
    )
    action_space: Any = MultiDiscrete([4, 4])
    reward_space: Any = Box(-np.inf, np.inf, (2,), np.float32)

    def _seen(self) -> Any:
        mask = np.ones((2, 4), np.int8)
        mask[:, 3] = 0
        return {"obs": np.ones((2, 1), np.float32), "action_mask": mask}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        assert max(action) < 3, "a masked action was chosen"
        reward = np.full(2, self.payoff[tuple(action)], np.float32)
        return self._seen(), reward, True, False, {}


class Mortal(gymnasium.Env[Any, Any]):
    """Episodes of up to 6 steps, in which the right agent may die; it then shows zeros.

    An agent gets the sum of its action, and loses 1 where it dies.
    """

    agent_ids = PAIR
    observation_space: Any = Dict(
        obs=Box(-1, 1, (2, 3), np.float32), alive=MultiBinary(2), state=Box(-1, 1, (4,), np.float32)
    )
    action_space: Any = Box(-1.0, 1.0, (2, 2), np.float32)
    reward_space: Any = Box(-np.inf, np.inf, (2,), np.float32)

    def _seen(self) -> Any:
        rows = self.np_random.uniform(-1, 1, (2, 3)).astype(np.float32)
        state = self.np_random.uniform(-1, 1, 4).astype(np.float32)
        rows[self.alive == 0] = 0
        return {"obs": rows, "alive": self.alive.copy(), "state": state}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.alive, self.steps = np.ones(2, np.int8), 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        self.steps += 1
        reward = self.alive * np.reshape(action, (2, -1)).sum(1).astype(np.float32)
        if self.alive[1] and self.np_random.random() < 0.3:
            self.alive[1] = 0
            reward[1] -= 1
        ended = bool(self.np_random.random() < 0.1)
        return self._seen(), reward, ended, self.steps == 6 and not ended, {}


class Choosing(Mortal):
    """With three actions, the last of which is forbidden in half of the states."""

    observation_space: Any = Dict(
        {**Mortal.observation_space.spaces, "action_mask": MultiBinary([2, 3])}
    )
    action_space: Any = MultiDiscrete([3, 3])

    def _seen(self) -> Any:
        self.mask = np.ones((2, 3), np.int8)
        self.mask[:, 2] = self.np_random.integers(0, 2, 2)
        self.mask[self.alive == 0] = 1
        return {**super()._seen(), "action_mask": self.mask}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        assert self.mask[[0, 1], action].all(), "a masked action was chosen"
        return super().step(action)
