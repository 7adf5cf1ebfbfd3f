"""Noise that is kept for several env steps, for each environment."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dicore.values import State, StateDict


class HeldNoise:
    """Draws standard normal matrices per environment, each kept for a number of env steps.

    Shapes: K ready environments, M environments seen.

    Args:
        rng: Generator of the matrices.
        every: Env steps for which a matrix is kept.
    """

    def __init__(self, rng: np.random.Generator, every: int) -> None:
        self._rng, self._every = rng, every
        self._drawn = np.zeros(0, np.float32)
        self._age = np.zeros(0, np.int64)

    def of(self, env_id: npt.NDArray[np.int64], shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """Returns the matrices of K environments for one env step: float32 [K, ...]."""
        drawn = self._grown(int(env_id.max()) + 1, shape)
        age = self._age[env_id]
        new = env_id[age % self._every == 0]
        if len(new):
            drawn[new] = self._rng.standard_normal((len(new), *shape), np.float32)
        self._age[env_id] = age + 1
        return drawn[env_id]

    def _grown(self, count: int, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """Returns the matrices, with zeros of age 0 for new environments."""
        if (missing := count - len(self._drawn)) > 0:
            old = self._drawn if len(self._drawn) else np.zeros((0, *shape), np.float32)
            self._drawn = np.concatenate((old, np.zeros((missing, *shape), np.float32)))
            self._age = np.concatenate((self._age, np.zeros(missing, np.int64)))
        return self._drawn

    def state_dict(self) -> StateDict:
        """Returns copies of the matrices, float32 [M, ...], and their ages, int64 [M]."""
        return {"drawn": self._drawn.copy(), "age": self._age.copy()}

    def load_state_dict(self, state: State) -> None:
        """Restores `state_dict`."""
        self._drawn, self._age = (np.array(state[name]) for name in ("drawn", "age"))
