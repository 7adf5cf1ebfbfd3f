"""Noise that is kept for a random number of env steps (Kim et al. 2026, arXiv:2604.04539).

Shapes: K ready environments, M environments seen, A dimensions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dicore.data import State, StateDict

__all__ = ["RepeatedNoise"]


class RepeatedNoise:
    """Standard normal noise that is kept for a random number of env steps, the same for all.

    Args:
        rng: Generator of the noise.
        longest: Most env steps; n has a probability in proportion to n^-2.
    """

    def __init__(self, rng: np.random.Generator, longest: int) -> None:
        self._rng = rng
        share = np.arange(1, longest + 1) ** -2.0
        self._below = np.cumsum(share / share.sum())[:-1]
        self._drawn = np.zeros((0, 0), np.float32)
        self._age = np.zeros(0, np.int64)
        self._steps = 0

    def of(self, env_id: npt.NDArray[np.int64], shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """Returns the noise of K environments for one env step: float32 [K, A].

        The noise of all is drawn anew before one would keep it for longer.
        """
        known = max(len(self._age), int(env_id.max()) + 1)
        age = np.concatenate((self._age, np.zeros(known - len(self._age), np.int64)))
        drawn = self._drawn
        if self._steps == 0 or (age[env_id] >= self._steps).any():
            self._steps = 1 + int(np.searchsorted(self._below, self._rng.random(), "right"))
            drawn, age = drawn[:0], np.zeros_like(age)
        if len(drawn) < known:
            fresh = self._rng.standard_normal((known - len(drawn), *shape), np.float32)
            drawn = np.concatenate((drawn.reshape(-1, *shape), fresh))
        age[env_id] += 1
        self._drawn, self._age = drawn, age
        found: npt.NDArray[np.float32] = drawn[env_id]
        return found

    def state_dict(self) -> StateDict:
        """Returns the noise, float32 [M, A], its ages, int64 [M], and when it is drawn anew."""
        return {"drawn": self._drawn.copy(), "age": self._age.copy(), "steps": self._steps}

    def load_state_dict(self, state: State) -> None:
        """Restores `state_dict`."""
        self._drawn, self._age = (np.array(state[name]) for name in ("drawn", "age"))
        self._steps = int(state["steps"])
