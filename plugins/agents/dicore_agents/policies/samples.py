"""Samples of agents: of their own rewards, or of the reward of the team.

Shapes: T steps, N environments, B samples, A agents.
"""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt

from dicore.data import Batch
from dicore.interfaces.policy import Tail
from dicore_plugins.functional import nstep_samples, transitions

__all__ = ["SumOfRewards", "own_samples", "with_own_rewards", "with_team_values"]

Array = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
_LOG = logging.getLogger("dicore.policy")
_PAID = 100
"""Steps with rewards after which it is said that they add up to nothing."""


def own_samples(block: Batch, nstep: int, gamma: float, tail: Tail | None) -> Batch:
    """Converts a block [T, N, ...] to single steps, or to n-step samples, of each agent's rewards.

    What others are paid after an agent died is no return of this agent: where agents can die, each
    has its own reward in n-step samples, 0 after it. One reward of the team goes on without it.
    """
    if nstep == 1:
        return transitions(block, tail)
    return nstep_samples(with_own_rewards(block), nstep, gamma, tail)


def with_own_rewards(block: Batch) -> Batch:
    """Returns a block with own rewards [T, N, A] of the agents that act, where agents can die."""
    alive, reward = block["obs"].get("alive"), block["reward"]
    if alive is None or reward.ndim == 2:
        return block
    own = np.where(alive != 0, reward, np.float32(0))
    return Batch({**block.columns, "reward": own}, len(block))


def with_team_values(
    reward: Array,
    value: Array,
    next_value: Array,
    now: Flags,
    later: Flags,
    done: Flags,
    end: Flags,
    gamma: float,
) -> tuple[Array, Array]:
    """Completes the values of a team's return by those of agents that do not act.

    An action may pay after its agent has left, so that returns of the team run to the end of the
    episode for all. What follows the last step of an agent is estimated by those that remain; where
    nobody acts, by what comes then, and by the critic if the block or the episode is cut off there:

        V_a(s) = mean_{b acts in s} V_b(s)         if a does not act in s
        V_a(s) = R + gamma (1 - done) V_a(s')      if nobody does

    Advantages and lambda-returns of each agent are then those of one that never leaves:

        G_a(s) = R + gamma (1 - done) ((1 - lambda) V_a(s') + lambda G_a(s'))

    Args:
        reward: float32 [T, N, A]; R at each agent.
        value: float32 [T, N, A]; V by the critic.
        next_value: float32 [T, N, A]; the same after each step.
        now: bool [T, N, A]; which agents act.
        later: bool [T, N, A]; which act after each step.
        done: bool [T, N, A]; the episode terminates.
        end: bool [T, N]; the last step of the episode.
        gamma: Discount factor.

    Returns:
        The values and the next values.
    """
    value, next_value = _by_acting(value, now), _by_acting(next_value, later)
    nobody = np.logical_not(now.any(-1))
    if not nobody.any():
        return value, next_value
    for step in range(len(value) - 1, -1, -1):
        rows = nobody[step]
        after = np.where(done[step], np.float32(0), next_value[step])
        value[step, rows] = (reward[step] + np.float32(gamma) * after)[rows]
        if step:
            rows = rows & ~np.asarray(end[step - 1], np.bool_)
            next_value[step - 1, rows] = value[step, rows]
    return value, next_value


def _by_acting(value: Array, acting: Flags) -> Array:
    """Returns values [T, N, A], those of agents that do not act replaced by the others' mean.

    Where nobody acts they stay as they are.
    """
    acting = acting | ~acting.any(-1, keepdims=True)
    total = np.where(acting, value, np.float32(0)).sum(-1, keepdims=True)
    count = acting.sum(-1, keepdims=True).astype(np.float32)
    return np.where(acting, value, total / count)


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
