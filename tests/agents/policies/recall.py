"""A game of two agents that need a memory: what step 0 shows says what step 3 pays for."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

LAST = 3


class Recall(gymnasium.Env):
    """Each agent sees its own number (-1 or 1) in step 0 alone, and the time of each step.

    In step 3 it is paid for action 0 if the number was -1, for action 1 if it was 1.
    """

    agent_ids = ("one", "other")
    reward_space = Box(0, 1, (2,), np.float32)
    observation_space = Dict(obs=Box(-1, 2, (2, 2), np.float32))
    action_space = MultiDiscrete([2, 2])
    metadata = {"render_modes": []}  # noqa: RUF012 - see gymnasium.Env

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self._number, self._step = self.np_random.integers(0, 2, 2), 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        over = self._step == LAST
        paid = (np.asarray(action) == self._number) & over
        self._step += 1
        return self._seen(), paid.astype(np.float32), over, False, {}

    def _seen(self) -> Any:
        shown = 2.0 * self._number - 1 if self._step == 0 else np.zeros(2)
        return {"obs": np.stack([shown, [self._step / LAST] * 2], 1).astype(np.float32)}


class MortalRecall(Recall):
    """As `Recall`; in some episodes the other agent comes late, in some it dies early."""

    observation_space = Dict(
        obs=Box(-np.inf, np.inf, (2, 2), np.float32), alive=MultiBinary(2), state=Box(0, 1, (1,))
    )
    state_space = Box(0, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self._from = int(self.np_random.integers(0, 2))
        self._until = int(self.np_random.integers(2, 7))
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        acts = self._acts()
        seen, paid, over, cut, info = super().step(action)
        return seen, np.where([True, acts], paid, 0).astype(np.float32), over, cut, info

    def _acts(self) -> bool:
        return bool(self._from <= self._step <= self._until)

    def _seen(self) -> Any:
        if not hasattr(self, "_from"):
            return super()._seen()
        rows = super()._seen()["obs"]
        acts = self._acts()
        if not acts:
            rows[1] = 9
        alive, state = np.array([1, acts], np.int8), np.float32([self._step / 4])
        return {"obs": rows, "alive": alive, "state": state}
