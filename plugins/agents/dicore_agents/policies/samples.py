"""Samples of agents that learn each for itself.

Shapes: T steps, N environments, B samples, A agents.
"""

from __future__ import annotations

import logging

import numpy as np

from dicore.data import Batch
from dicore.interfaces.policy import Tail
from dicore_plugins.functional import nstep_samples, transitions

__all__ = ["SumOfRewards", "own_samples", "with_own_rewards"]

_LOG = logging.getLogger("dicore.policy")
_PAID = 100
"""Steps with rewards after which it is said that they add up to nothing."""


def own_samples(block: Batch, nstep: int, gamma: float, tail: Tail | None) -> Batch:
    """Converts a block [T, N, ...] to single steps, or to n-step samples, of each agent's rewards.

    What a team earns after an agent died is no return of this agent: where agents can die, rewards
    of n-step samples are [B, A].
    """
    if nstep == 1:
        return transitions(block, tail)
    return nstep_samples(with_own_rewards(block), nstep, gamma, tail)


def with_own_rewards(block: Batch) -> Batch:
    """Returns a block with rewards [T, N, A] of the agents that act, where agents can die."""
    alive, reward = block["obs"].get("alive"), block["reward"]
    if alive is None:
        return block
    reward = reward if reward.ndim > 2 else reward[..., None]
    own = np.where(alive != 0, reward, np.float32(0))
    return Batch({**block.columns, "reward": own}, len(block))


class SumOfRewards:
    """Warns, once, if the rewards of a team, the sums of its agents', are always 0.

    Then what one agent wins another loses, and the team learns nothing.
    """

    def __init__(self) -> None:
        self._paid: int | None = 0

    def see(self, block: Batch, name: str) -> None:
        """Looks at the rewards of a block; a few hundred steps are enough."""
        if self._paid is None or block["reward"].ndim < 3:
            return
        reward = np.nan_to_num(np.asarray(block["reward"], np.float64))
        size = np.abs(reward).max(-1)
        if (np.abs(reward.sum(-1)) > 1e-6 * size).any():
            self._paid = None
            return
        self._paid += int((size > 0).sum())
        if self._paid >= _PAID:
            self._paid = None
            _LOG.warning(
                "the rewards of the agents add up to 0 in every step, and %s learns from their sum:"
                " it learns nothing; choose independent_q, ippo or maddpg, or policy.type=groups"
                " with a group for each side", name,
            )  # fmt: skip
