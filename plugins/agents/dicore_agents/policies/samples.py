"""Samples of agents that learn each for itself.

Shapes: T steps, N environments, B samples, A agents.
"""

from __future__ import annotations

import numpy as np

from dicore.data import Batch
from dicore.interfaces.policy import Tail
from dicore_plugins.functional import nstep_samples, transitions

__all__ = ["own_samples", "with_own_rewards"]


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
