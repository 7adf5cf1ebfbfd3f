"""What policies that learn from demonstrations and from their own steps share.

Samples have the column `demo`: 1 if they were shown, 0 if the policy made them itself.

Shapes: K environments, T steps, `...` one item.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dicore.data import Batch, Columns, TimestepBatch, Tree, tree_map
from dicore.interfaces.policy import Tail
from dicore_plugins.policies.base import Policy, mode_attribute

__all__ = ["FromDemonstrations", "as_demonstrations"]


class FromDemonstrations(Policy):
    """Marks steps as the policy's own; comes first among the bases of a policy."""

    attributes: ClassVar[tuple[str, ...]] = ("demo_reward",)
    _demo_reward: ClassVar[float | None] = None
    """Reward of each step shown, while own steps have 0; None: the rewards of the environment."""

    def _process_transition(self, obs: Tree, output: Columns, timestep: Tree) -> Columns:
        columns = super()._process_transition(obs, output, timestep)
        columns["demo"] = np.zeros(len(timestep.reward), np.float32)
        if self._demo_reward is not None:
            columns["reward"] = np.zeros(len(timestep.reward), np.float32)
        return columns


def as_demonstrations(steps: Batch, collect_mode: Any) -> Batch:
    """Makes samples of a policy that learns from demonstrations of the steps of an expert.

    They are those that the policy would make of its own steps (single steps, n-step samples,
    sequences), with `demo` = 1. Recurrent states are zeros.

    Args:
        steps: T steps, episode after episode: obs, action, reward, next_obs, done (terminations)
            and `end` (the last step of an episode).
        collect_mode: Collect mode of the policy, see `FromDemonstrations`.
    """
    count, end = len(steps), np.asarray(steps["end"], np.bool_)
    terminated = np.asarray(steps["done"]) > 0
    after = steps["next_obs"]
    timestep = TimestepBatch(
        after, np.asarray(steps["reward"], np.float32), terminated, end & ~terminated, [{}] * count
    )
    columns = collect_mode.process_transition(steps["obs"], {"action": steps["action"]}, timestep)
    columns = {**columns, "demo": np.ones(count, np.float32)}
    reward = mode_attribute(collect_mode, "demo_reward", None)
    if reward is not None:
        columns["reward"] = np.full(count, reward, np.float32)
    facts = {"end": end, "valid": np.ones(count, np.bool_), "env_id": np.zeros(count, np.int64)}
    block = tree_map(lambda leaf: leaf[:, None], {**columns, **facts})
    last = tree_map(lambda leaf: leaf[-1:], after)
    finals = np.flatnonzero(end)
    final_obs = tree_map(lambda leaf: leaf[finals], after)
    samples: Batch = collect_mode.get_train_sample(
        Batch(block, count), Tail(last, finals, final_obs, count)
    )
    samples.columns["collect_iter"] = np.zeros(len(samples), np.int64)  # as collectors add it
    return samples
