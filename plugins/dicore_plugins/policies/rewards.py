"""Rewards of a reward model: they replace those of a block before samples are made of it.

Shapes: T steps, N environments, B = T N rows.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.data import Batch, tree_map
from dicore.errors import SchemaError
from dicore.interfaces.policy import CollectMode, Tail
from dicore_plugins.functional.samples import as_rows, next_obs_of

if TYPE_CHECKING:
    from dicore.interfaces.reward_model import IRewardModel


def with_reward_model(
    collect_mode: Any, reward_model: IRewardModel, *, estimates: bool = True
) -> Any:
    """Returns a collect mode whose samples have the rewards that a reward model estimates.

    Returns over several steps (n-step, GAE) are computed from the estimated rewards. The reward
    model first receives the new rows by `collect_data`, without those of abnormal episodes.

    Args:
        collect_mode: A collect mode, or an object with its functions.
        reward_model: See `IRewardModel`; `estimate` receives B rows, by step and then by
            environment and without those of abnormal episodes, with the columns of the block,
            `next_obs`, `end` and `env_id`.
        estimates: False: the reward model receives the new rows, but samples keep their rewards.

    Returns:
        The mode with another `get_train_sample`; the block itself is not changed.
    """
    make_samples: Callable[[Batch, Tail], Batch] = collect_mode.get_train_sample

    def get_train_sample(block: Batch, tail: Tail) -> Batch:
        steps, num_envs = block["end"].shape
        columns = {key: block[key] for key in block.columns if key != "valid"}
        columns["next_obs"] = next_obs_of(block, tail)
        rows = Batch(tree_map(as_rows, columns), steps * num_envs)
        valid = np.flatnonzero(block["valid"].reshape(-1))
        reward_model.collect_data(rows[valid[valid >= tail.carried * num_envs]])
        if not estimates:
            return make_samples(block, tail)
        given = rows if len(valid) == len(rows) else rows[valid]
        reward = np.asarray(reward_model.estimate(given)["reward"])
        if len(reward) != len(given):
            raise SchemaError(
                f"{type(reward_model).__name__}.estimate returned {len(reward)} rewards for"
                f" {len(given)} rows"
            )
        if given is not rows:  # those of abnormal episodes give no samples
            reward, found = np.zeros((len(rows), *reward.shape[1:]), reward.dtype), reward
            reward[valid] = found
        reward = reward.reshape(steps, num_envs, *reward.shape[1:])
        return make_samples(Batch({**block.columns, "reward": reward}, steps), tail)

    def of_mode(mode: Any) -> Any:
        return with_reward_model(mode, reward_model, estimates=estimates)

    vars(get_train_sample)["of_mode"] = of_mode  # for copies of the policy
    if isinstance(collect_mode, CollectMode):
        return collect_mode._replace(get_train_sample=get_train_sample)
    functions = {name: getattr(collect_mode, name, None) for name in CollectMode._fields}
    functions = {name: each for name, each in functions.items() if each is not None}
    return SimpleNamespace(**{**functions, "get_train_sample": get_train_sample})
