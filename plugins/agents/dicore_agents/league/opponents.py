"""Who plays the other sides of a game.

Shapes: K environments, k agents of a side, n actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box

from dicore.data import EnvBatch, Tree, tree_map

if TYPE_CHECKING:
    from dicore.interfaces.env import EnvSpec

__all__ = ["LAST", "IOpponent", "PolicyOpponent", "RandomOpponent", "SharedOut"]

LAST: Final = {"envstep": 10**9, "learner_step": 10**9}
"""Counts at which a policy that only plays explores: least, as at the end of all schedules."""


class IOpponent(Protocol):
    """Chooses the actions of a side, for many environments at once.

    In a game of S sides it plays S - 1 of them in each environment; each has a number of its own,
    from `env_id * (S - 1)` on, by which the opponent remembers. With two sides that is `env_id`.
    """

    def act(self, env_id: npt.NDArray[np.int64], seen: Tree) -> Tree:
        """Returns actions [K, ...] for what the sides numbered `env_id` see."""

    def reset(self, env_ids: list[int]) -> None:
        """Begins new episodes of the sides numbered `env_ids`."""


class RandomOpponent:
    """Draws allowed actions uniformly.

    Args:
        spec: That of a side.
        rng: Random generator; may be replaced at any time.
    """

    def __init__(self, spec: EnvSpec, rng: np.random.Generator) -> None:
        self._space: Any = spec.action
        self.rng = rng

    def act(self, env_id: npt.NDArray[np.int64], seen: Tree) -> Tree:
        """Returns actions; masks are obeyed."""
        space, count = self._space, len(env_id)
        if isinstance(space, Box):
            low, high = np.maximum(space.low, -1e3), np.minimum(space.high, 1e3)
            return self.rng.uniform(low, high, (count, *space.shape)).astype(space.dtype)
        sizes = np.atleast_1d(space.nvec if hasattr(space, "nvec") else space.n)
        drawn = self.rng.random((count, *space.shape, int(sizes.max())))
        mask = seen.get("action_mask") if isinstance(seen, Mapping) else None
        if mask is None:
            mask = np.arange(int(sizes.max())) < sizes[:, None]
            mask = mask if space.shape else mask[0]
        return np.where(mask != 0, drawn, -1.0).argmax(-1)

    def reset(self, env_ids: list[int]) -> None:
        """Does nothing: it has no memory."""


class SharedOut:
    """Several opponents, among whom environments are shared out: environment i meets i modulo P.

    Args:
        opponents: The P opponents.
        sides: Sides that an opponent plays in each environment.
    """

    def __init__(self, opponents: Sequence[IOpponent], sides: int = 1) -> None:
        self._opponents, self._sides = [*opponents], sides

    def act(self, env_id: npt.NDArray[np.int64], seen: Tree) -> Tree:
        """Returns the actions that each chooses in its environments."""
        found: Tree = None
        for number, each in enumerate(self._opponents):
            rows = np.flatnonzero(env_id // self._sides % len(self._opponents) == number)
            if len(rows):
                part = tree_map(lambda leaf, at=rows: leaf[at], seen)
                chosen = np.asarray(each.act(env_id[rows], part))
                if found is None:
                    found = np.zeros((len(env_id), *chosen.shape[1:]), chosen.dtype)
                found[rows] = chosen
        return found

    def reset(self, env_ids: list[int]) -> None:
        """Begins new episodes."""
        for number, each in enumerate(self._opponents):
            each.reset(
                [own for own in env_ids if own // self._sides % len(self._opponents) == number]
            )


class PolicyOpponent:
    """A policy with parameters that do not change while it plays.

    Args:
        mode: Collect or eval mode of the policy.
        settings: Keyword arguments of its forward (`eps`, ...).
    """

    def __init__(self, mode: Any, settings: Mapping[str, object] | None = None) -> None:
        self._mode, self._settings = mode, dict(settings or {})

    def act(self, env_id: npt.NDArray[np.int64], seen: Tree) -> Tree:
        """Returns the actions of one forward pass."""
        output = EnvBatch.of(self._mode.forward(EnvBatch(env_id, seen), **self._settings))
        return output.value["action"]

    def reset(self, env_ids: list[int]) -> None:
        """Resets the memory of the policy, if it has one."""
        self._mode.reset(env_ids)
