"""Training samples: single steps or n-step returns of trajectories, and their tensors.

n-step returns (Sutton and Barto 2018, chapter 7): a sample that starts at step t bridges
k = min(n, steps to the end of its episode) steps:

    reward_t = sum_{j<k} gamma^j r_{t+j}    next_obs_t, done_t = those of step t + k - 1
    value_gamma_t = gamma^k

so that its bootstrap is value_gamma (1 - done) V(next_obs). A truncation ends the bridge but is not
a termination: done stays 0 and the last observation of the cut episode keeps its value.

Shapes: T steps, N environments, B samples, `...` one item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from dicore.data import Batch, Tree, tree_map
from dicore.data.tree import is_tensor, loaded_torch
from dicore.errors import SchemaError, UsageError

_FLOAT_COLUMNS = ("reward", "done", "value_gamma", "weight", "IS")


def flatten_time(block: Batch) -> Batch:
    """Flattens columns [T, N, ...] to [T * N, ...], step by step, without `end`.

    The columns are views of the block where NumPy allows it; `done` becomes float32.
    """
    columns = {key: column for key, column in block.items() if key != "end"}
    count = len(block) * block["end"].shape[1]
    flat = tree_map(lambda leaf: leaf.reshape(count, *leaf.shape[2:]), columns)
    if "done" in flat:
        flat["done"] = flat["done"].astype(np.float32)
    return Batch(flat, count)


def nstep_samples(block: Batch, nstep: int, gamma: float) -> Batch:
    """Converts a block of T + nstep - 1 steps to n-step samples of its first T steps.

    Args:
        block: Columns [T + nstep - 1, N, ...] with `reward`, `next_obs`, `done` (termination) and
            `end` (the last step of an episode, terminated or truncated).
        nstep: n of the n-step returns.
        gamma: Discount factor.

    Returns:
        T * N samples: `reward` is the discounted sum, `next_obs` and `done` are those of the last
        bridged step, `value_gamma` float32 is gamma^k of the k bridged steps.
    """
    bridged = nstep_columns(
        reward=block["reward"],
        terminated=block["done"],
        end=block["end"],
        next_obs=block["next_obs"],
        nstep=nstep,
        gamma=gamma,
    )
    length = len(block) - (nstep - 1)
    columns = tree_map(lambda leaf: leaf[:length], dict(block.items()))
    return flatten_time(Batch({**columns, **bridged}, length))


def to_batch(data: Batch | Sequence[Mapping[str, Any]], device: str = "cpu") -> Batch:
    """Returns samples as a Batch of tensors on `device`; CPU memory is shared, not copied.

    Columns of the loss (`done`, rewards, weights) become float32 [B] from any form: bools, ints,
    arrays of shape (1,).
    """
    batch = data if isinstance(data, Batch) else Batch.from_rows(data)
    batch = batch.to_torch() if device == "cpu" else batch.to(device, non_blocking=True)
    columns = batch.columns
    odd = {
        key: columns[key]
        for key in _FLOAT_COLUMNS
        if key in columns and (columns[key].dim() > 1 or not columns[key].is_floating_point())
    }
    if not odd:
        return batch
    plain = {key: each.squeeze(1) if each.dim() > 1 else each for key, each in odd.items()}
    return Batch({**columns, **{key: each.float() for key, each in plain.items()}}, len(batch))


class BridgedColumns(TypedDict):
    """Result of `nstep_columns`; T' = T - (nstep - 1)."""

    reward: npt.NDArray[np.float32]
    next_obs: Tree
    done: npt.NDArray[np.float32]
    value_gamma: npt.NDArray[np.float32]


def nstep_columns(
    reward: npt.NDArray[np.float32],
    terminated: npt.NDArray[np.bool_],
    end: npt.NDArray[np.bool_],
    next_obs: Tree,
    nstep: int,
    gamma: float,
) -> BridgedColumns:
    """Computes n-step returns of the first T' = T - (nstep - 1) steps of N parallel streams.

    The last nstep - 1 steps are bridged only. Carry them over to the next call: small blocks then
    return the same numbers as one large block, bit for bit.

    Args:
        reward: float32 [T, N].
        terminated: bool (or 0/1) [T, N]; the next state is terminal.
        end: bool [T, N]; the episode's last step, terminated or truncated.
        next_obs: Arrays [T, N, ...]; the true observation after each step.
        nstep: n >= 1.
        gamma: Discount factor.

    Returns:
        Columns [T', N, ...] in new memory; `done` is 1 where the bridge ends in a terminal state.

    Raises:
        SchemaError: there are fewer than nstep steps, or the columns differ in T or N.
        UsageError: nstep is below 1.
    """
    if nstep < 1:
        raise UsageError(f"nstep must be >= 1, got {nstep}")
    length = len(reward) - (nstep - 1)
    if length < 1:
        raise SchemaError(f"{nstep}-step returns need at least {nstep} steps, got {len(reward)}")
    if not reward.shape == terminated.shape == end.shape:
        raise SchemaError(
            "reward, terminated and end must all be [T, N]; got"
            f" {reward.shape}, {terminated.shape}, {end.shape}"
        )
    total = reward[:length].astype(np.float32)
    last = np.zeros(total.shape, np.intp)
    going = np.ones(total.shape, np.bool_)
    for step in range(1, nstep):
        going &= ~end[step - 1 : step - 1 + length]
        total += reward[step : step + length] * (going * np.float32(gamma**step))
        last += going
    index = (last + np.arange(length)[:, None]) * total.shape[1] + np.arange(total.shape[1])
    powers = np.array([gamma**steps for steps in range(1, nstep + 1)], np.float32)
    return {
        "reward": total,
        "next_obs": tree_map(lambda leaf: _take(leaf, index), next_obs),
        "done": terminated.reshape(-1)[index].astype(np.float32),
        "value_gamma": powers[last],
    }


def _take(leaf: npt.NDArray[Any], index: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """Takes [T', N, ...] by indices into the flattened first two axes of [T, N, ...]."""
    steps, envs, *item = leaf.shape
    return leaf.reshape(steps * envs, *item).take(index, axis=0)


def get_nstep_return_data(
    data: Sequence[Mapping[str, Any]],
    nstep: int,
    cum_reward: bool = False,
    correct_terminate_gamma: bool = True,
    gamma: float = 0.99,
) -> list[dict[str, Any]]:
    """Converts the T transitions of a part of a trajectory to n-step transitions.

    With nstep = 1 the rows are returned unchanged. A row with a true `done` or `truncated` ends the
    bridge, like the end of the list.

    Args:
        data: T rows in time order with at least reward, next_obs and done.
        nstep: n >= 1.
        cum_reward: Sum the discounted rewards; otherwise `reward` is the vector of n rewards, zero
            past the end of the bridge, a tensor or a float32 array like the rewards.
        correct_terminate_gamma: Add `value_gamma` = gamma^k of the k bridged steps; otherwise the
            learner uses gamma^n everywhere.
        gamma: Discount factor.

    Returns:
        T new rows; `data` is not changed.

    Raises:
        UsageError: nstep is below 1.
    """
    if nstep < 1:
        raise UsageError(f"nstep must be >= 1, got {nstep}")
    if nstep == 1:
        return [dict(row) for row in data]
    rows: list[dict[str, Any]] = []
    for start, row in enumerate(data):
        bridge = _bridge(data[start : start + nstep])
        rewards = [step["reward"] for step in bridge]
        final = bridge[-1]
        new = {
            **row,
            "reward": _discounted(rewards, gamma) if cum_reward else _padded(rewards, nstep),
            "next_obs": final["next_obs"],
            "done": final["done"],
        }
        if correct_terminate_gamma:
            new["value_gamma"] = gamma ** len(bridge)
        rows.append(new)
    return rows


def _bridge(window: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Cuts a window of rows after the first that ends an episode."""
    for position, row in enumerate(window):
        if row["done"] or row.get("truncated", False):
            return window[: position + 1]
    return window


def _discounted(rewards: Sequence[Any], gamma: float) -> Any:
    total = rewards[0]
    for step, reward in enumerate(rewards[1:], start=1):
        total = total + gamma**step * reward
    return total


def _padded(rewards: Sequence[Any], nstep: int) -> Any:
    """Returns n rewards as one vector [n], with zeros past the last."""
    if is_tensor(rewards[0]):
        torch = loaded_torch()
        assert torch is not None
        out = rewards[0].new_zeros(nstep)
        out[: len(rewards)] = torch.stack([reward.reshape(()) for reward in rewards])
        return out
    vector = np.zeros(nstep, np.float32)
    vector[: len(rewards)] = [np.asarray(reward).item() for reward in rewards]
    return vector
