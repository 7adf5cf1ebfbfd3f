"""An environment for tests of wrappers: records its calls and changes to its observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, Tuple

from dicore.testing.compare import copied, difference
from dicore.values import Info, Tree

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

__all__ = ["FORMS", "Form", "InnerEnv"]

Form = Literal["vector", "image", "continuous", "hybrid"]
FORMS: tuple[Form, ...] = ("vector", "image", "continuous", "hybrid")
"""Float32 [4] and 3 actions; uint8 [12, 10, 3] and 3 actions; float32 [4] and 2 real actions;
float32 [4] and actions of a number, one real and two real ones."""


class InnerEnv(gymnasium.Env[Any, Any]):
    """A valid environment whose episodes depend on their seeds.

    A life is lost at the fifth step, and the last one when the episode terminates: `info["lives"]`.
    Three actions mean NOOP, FIRE and RIGHT.

    Args:
        form: Observations and actions, see `FORMS`.
        length: Steps in an episode.
        end: How episodes end.

    Attributes:
        seeds: What `reset` was given as `seed`, and
        options: as `options`.
        steps: Steps made in all.
        closed: Calls of `close`.
        stepped_after_end: Steps made where a reset was due.
        over: Whether the episode has ended, and how.
    """

    def __init__(
        self,
        form: Form = "vector",
        length: int = 7,
        end: Literal["terminated", "truncated"] = "terminated",
    ) -> None:
        self.form, self.length, self.end = form, length, end
        if form == "image":
            self.observation_space = Box(0, 255, (12, 10, 3), np.uint8)
        else:
            self.observation_space = Box(-100.0, 100.0, (4,), np.float32)
        self.action_space: Space = Discrete(3)
        if form == "continuous":
            self.action_space = Box(-2.0, 2.0, (2,), np.float32)
        elif form == "hybrid":
            boxes = Box(-1.0, 1.0, (1,), np.float32), Box(0.0, 2.0, (2,), np.float32)
            self.action_space = Tuple((Discrete(3), *boxes))
        self.seeds: list[int | None] = []
        self.options: list[dict[str, Any] | None] = []
        self.steps = self.closed = self.stepped_after_end = 0
        self.over = "reset is due"
        self._count = 0
        self._place = np.zeros(4, np.float32)
        self._handed: list[tuple[object, object]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.options.append(options)
        self.over, self._count = "", 0
        self._place = self.np_random.uniform(-1, 1, 4).astype(np.float32)
        return self._show(), {"inner": "reset", "lives": 2}

    def step(self, action: Tree) -> tuple[Tree, float, bool, bool, Info]:
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        self.stepped_after_end += bool(self.over)
        self.steps += 1
        self._count += 1
        parts = action if isinstance(action, tuple) else (action,)
        numbers = np.concatenate([np.ravel(np.asarray(part, np.float32)) for part in parts])
        change = np.resize(numbers - 0.5, 4)
        self._place = np.clip(self._place + change + self._count / 7, -100, 100).astype(np.float32)
        if self._count >= self.length:
            self.over = self.end
        ends = self.over == "terminated", self.over == "truncated"
        lives = 0 if ends[0] else 2 - (self._count >= 5)
        info = {"inner": self._count, "lives": lives}
        return self._show(), float(self._place.sum()), *ends, info

    def get_action_meanings(self) -> list[str]:
        """Returns what each discrete action means."""
        return ["NOOP", "FIRE", "RIGHT"] if isinstance(self.action_space, Discrete) else []

    def close(self) -> None:
        self.closed += 1

    def spoilt(self) -> str:
        """Returns how its past observations were changed; "" if they were not."""
        return next((wrong for obs, was in self._handed if (wrong := difference(obs, was))), "")

    def _show(self) -> object:
        if self.form == "image":
            pixels = np.arange(12 * 10 * 3, dtype=np.int64).reshape(12, 10, 3)
            obs: Any = ((pixels + 40 * self._place[:3].astype(np.float64)) % 256).astype(np.uint8)
        else:
            obs = self._place.copy()
        self._handed = [*self._handed[-3:], (obs, copied(obs))]
        return obs
