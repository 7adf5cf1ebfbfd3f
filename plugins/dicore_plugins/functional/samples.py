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
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt

from dicore.data import Batch, Columns, Row, Tree, tree_map, tree_row
from dicore.data.tree import is_tensor, loaded_torch
from dicore.errors import SchemaError, UsageError

if TYPE_CHECKING:
    from dicore.interfaces.policy import Tail

_FLOAT_COLUMNS = ("reward", "done", "value_gamma", "weight", "IS")


def next_obs_of(block: Batch, tail: Tail | None) -> Tree:
    """Returns the observations after each row of a block.

    They are derived from `obs` and the tail, so that a block stores each observation once; a column
    `next_obs` of the block comes first.

    Args:
        block: Columns [T, N, ...].
        tail: What follows the block; None: the block has `next_obs`.

    Returns:
        Arrays [T, N, ...], in new memory if they are derived.

    Raises:
        SchemaError: there is neither a tail nor a column `next_obs`, or the tail's observations
            have another form than the column `obs`.
    """
    if "next_obs" in block:
        return block["next_obs"]
    if tail is None:
        raise SchemaError("the block has no next_obs and there is no tail", hint="pass the tail")
    if tail.changed:
        raise SchemaError(
            "process_transition changes obs, so next_obs cannot be taken from the following row",
            hint="return next_obs too, changed in the same way",
        )
    try:
        return rows_after(block["obs"], tail.obs, tail.final_obs, tail)
    except ValueError as error:
        raise SchemaError(
            f"the column 'obs' differs from the observations of the environment: {error}",
            hint="return next_obs from process_transition too",
        ) from error


def rows_after(rows: Tree, last: Tree, finals: Tree, tail: Tail) -> Tree:
    """Returns what follows each row of a block, of observations or of what is computed from them.

    `rows_after(value, V(tail.obs), V(tail.final_obs), tail)` are the values of the next states.

    Args:
        rows: Arrays [T, N, ...], of the block's observations.
        last: Arrays [N, ...], of `tail.obs`.
        finals: Arrays [F, ...], of `tail.final_obs`.
        tail: What follows the block.

    Returns:
        Arrays [T, N, ...] in new memory.
    """
    index = tail.final_index

    def shifted(leaf: Tree, after: Tree, ended: Tree) -> Tree:
        out = np.empty_like(leaf)
        if len(out) > 1:
            out[:-1] = leaf[1:]
        out[-1] = after
        if len(index) == 1:  # most often while learning by replay; quicker than by an array
            row, env = divmod(int(index[0]), leaf.shape[1])
            out[row, env : env + 1] = ended
        elif len(index):
            out[np.divmod(index, leaf.shape[1])] = ended
        return out

    if rows.__class__ is np.ndarray:  # most observations; faster than a walk of the tree
        return shifted(rows, last, finals)
    return tree_map(shifted, rows, last, finals)


def flatten_time(block: Batch, tail: Tail | None = None) -> Batch:
    """Flattens columns [T, N, ...] to [B, ...], step by step, without the rows that are not valid.

    Args:
        block: Columns [T, N, ...] with `end`.
        tail: Not needed; a policy without `next_obs` can use this function as its
            `get_train_sample`.

    Returns:
        The columns, as views of the block where NumPy allows it; `done` becomes float32. `end` and
        `env_id` are kept, `valid` is not.
    """
    return _flat(dict(block.columns), len(block))


def _flat(columns: Columns, steps: int) -> Batch:
    valid = columns.pop("valid", None)
    count = steps * columns["end"].shape[1]
    if steps == 1:  # most often while learning by replay; quicker than to reshape
        flat = {
            key: each[0] if each.__class__ is np.ndarray else tree_row(each, 0)
            for key, each in columns.items()
        }
    else:
        flat = tree_map(lambda leaf: leaf.reshape(count, *leaf.shape[2:]), columns)
    if "done" in flat:
        flat["done"] = flat["done"].astype(np.float32)
    samples = Batch(flat, count)
    if valid is None or b"\0" not in valid.tobytes():
        return samples
    return samples[np.flatnonzero(valid)]


def weight_of(batch: Batch, *, sampled: bool) -> Tree:
    """Returns the factors of the losses, float32 [B], or None: `weight`, else `IS` if `sampled`."""
    return batch.get("weight", batch.get("IS") if sampled else None)


def as_rows(leaf: Tree) -> Tree:
    """Flattens [T, N, ...], an array or a tensor, to [T * N, ...]; items may have no numbers."""
    steps, envs, *item = leaf.shape
    return leaf.reshape(steps * envs, *item)


def transitions(block: Batch, tail: Tail | None = None) -> Batch:
    """Converts a block [T, N, ...] to single steps [B, ...] with `next_obs`; see `flatten_time`."""
    if "next_obs" in block:
        return flatten_time(block)
    return _flat({**block.columns, "next_obs": next_obs_of(block, tail)}, len(block))


def nstep_samples(block: Batch, nstep: int, gamma: float, tail: Tail | None = None) -> Batch:
    """Converts a block to n-step samples that begin at its first rows.

    Args:
        block: Columns [T, N, ...] with `reward`, `done` (termination) and `end` (the last step of
            an episode, terminated or truncated).
        nstep: n of the n-step returns.
        gamma: Discount factor.
        tail: What follows the block; None: the block has `next_obs`, and samples begin at the first
            T - nstep + 1 rows.

    Returns:
        Samples [B, ...] as from `flatten_time`: `reward` is the discounted sum, `next_obs` and
        `done` are those of the last bridged step, `value_gamma` float32 is gamma^k of the k bridged
        steps.
    """
    starts = len(block) - (nstep - 1) if tail is None else tail.starts
    bridged = nstep_columns(
        reward=block["reward"],
        terminated=block["done"],
        end=block["end"],
        next_obs=next_obs_of(block, tail),
        nstep=nstep,
        gamma=gamma,
        starts=starts,
    )
    columns = tree_map(lambda leaf: leaf[:starts], block.columns)
    return flatten_time(Batch({**columns, **bridged}, starts))


def sequences(block: Batch, length: int, stride: int, tail: Tail | None = None) -> Batch:
    """Cuts a block into sequences of consecutive rows.

    Sequences may contain the end of an episode (`end`), after which a recurrent state is reset.
    Those with rows that are not valid are left out.

    Args:
        block: Columns [T, N, ...].
        length: Rows of a sequence, L.
        stride: Rows between the starts of two sequences.
        tail: What follows the block; None: sequences begin wherever they fit.

    Returns:
        B sequences [B, L, ...], by start and then by environment; `env_id` int64 [B].

    Raises:
        SchemaError: there is no tail, and the block is shorter than one sequence.
    """
    if tail is None and len(block) < length:
        raise SchemaError(f"sequences of {length} rows do not fit in a block of {len(block)}")
    last = max(len(block) - length + 1, 0)
    starts = np.arange(0, last if tail is None else min(last, tail.starts), stride)
    rows = starts[:, None] + np.arange(length)
    num_envs = block["end"].shape[1]

    def cut(leaf: Tree) -> Tree:  # [S, L, N, ...] -> [S, N, L, ...] -> [B, L, ...]
        chosen = leaf[rows].swapaxes(1, 2)
        return chosen.reshape(len(starts) * num_envs, length, *leaf.shape[2:])

    columns = {key: each for key, each in block.items() if key not in ("valid", "env_id")}
    found = tree_map(cut, columns)
    if "done" in found:
        found["done"] = found["done"].astype(np.float32)
    env_id = block["env_id"][0] if "env_id" in block else np.arange(num_envs)
    found["env_id"] = np.tile(env_id, len(starts))
    samples = Batch(found, len(starts) * num_envs)
    valid = block.get("valid")
    if valid is None or valid.all():
        return samples
    return samples[np.flatnonzero(cut(valid).all(1))]


def to_batch(data: Batch | Sequence[Mapping[str, Tree]], device: str = "cpu") -> Batch:
    """Returns samples as a Batch of tensors on `device`; CPU memory is shared, not copied.

    Columns of the loss (`done`, rewards, weights) become float32 [B] from any form: bools, ints,
    arrays of shape (1,).

    Raises:
        SchemaError: `data` is neither a Batch nor a list of samples.
    """
    batch = data if isinstance(data, Batch) else Batch.from_rows(_checked_rows(data))
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


def _checked_rows(data: object) -> Sequence[Mapping[str, Tree]]:
    if not isinstance(data, Sequence) or not data or not all(isinstance(r, Mapping) for r in data):
        what = type(data).__name__
        if isinstance(data, Sequence):
            what = f"{what} of {type(data[0]).__name__}" if data else f"empty {what}"
        raise SchemaError(
            f"expected a Batch or a list of samples (dicts with obs, action, …), got {what}",
            hint="Batch.from_rows(list_of_dicts), or buffer.sample_batch(batch_size)",
        )
    return data


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
    starts: int | None = None,
) -> BridgedColumns:
    """Computes n-step returns of the first T' = T - (nstep - 1) steps of N parallel streams.

    The last nstep - 1 steps are bridged only. Carry them over to the next call: small blocks then
    return the same numbers as one large block, bit for bit.

    Args:
        reward: float32 [T, N], or [T, N, M] with M parts.
        terminated: bool (or 0/1) [T, N]; the next state is terminal.
        end: bool [T, N]; the episode's last step, terminated or truncated.
        next_obs: Arrays [T, N, ...]; the true observation after each step.
        nstep: n >= 1.
        gamma: Discount factor.
        starts: T', if it is another: up to T where the last steps of the streams end episodes.

    Returns:
        Columns [T', N, ...] in new memory; `done` is 1 where the bridge ends in a terminal state.

    Raises:
        SchemaError: there are fewer than nstep steps, or the columns differ in T or N.
        UsageError: nstep is below 1.
    """
    if nstep < 1:
        raise UsageError(f"nstep must be >= 1, got {nstep}")
    length = len(reward) - (nstep - 1) if starts is None else starts
    if length < 1:
        raise SchemaError(f"{nstep}-step returns need at least {nstep} steps, got {len(reward)}")
    if not reward.shape[:2] == terminated.shape == end.shape:
        raise SchemaError(
            "reward, terminated and end must all be [T, N]; got"
            f" {reward.shape}, {terminated.shape}, {end.shape}"
        )
    powers = np.array([gamma**steps for steps in range(nstep + 1)], np.float32)
    total, last = _bridged(reward.astype(np.float32, copy=False), end, powers[:-1], length)
    index = (last + np.arange(length)[:, None]) * last.shape[1] + np.arange(last.shape[1])
    return {
        "reward": total,
        "next_obs": tree_map(lambda leaf: _take(leaf, index), next_obs),
        "done": terminated.reshape(-1)[index].astype(np.float32),
        "value_gamma": powers[last + 1],
    }


def _bridged(
    reward: npt.NDArray[Any], end: npt.NDArray[np.bool_], powers: npt.NDArray[Any], length: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """Sums the discounted rewards of the n-step bridges that begin at the first rows.

    What follows an end has no influence, not even if it is NaN.

    Args:
        reward: float [T, N], or [T, N, M] with M parts.
        end: bool [T, N]; the episode's last step.
        powers: float [n]; gamma^0 to gamma^(n-1).
        length: T', the number of bridges of each environment.

    Returns:
        The sums [T', N, ...], and the number of steps from the first to the last, int [T', N].
    """
    total = reward[:length].copy()
    last = np.zeros(end[:length].shape, np.intp)
    going = np.ones(last.shape, np.bool_)
    for step in range(1, len(powers)):
        fit = max(0, min(length, len(reward) - step))  # less where streams end with the block
        going[fit:] = False
        going[:fit] &= ~end[step - 1 : step - 1 + fit]
        counts = going[:fit]
        if reward.ndim > 2:
            counts = counts.reshape(*counts.shape, *(1,) * (reward.ndim - 2))
        after = powers[step] * reward[step : step + fit]
        np.add(total[:fit], after, out=total[:fit], where=counts)
        last += going
    return total, last


def _take(leaf: npt.NDArray[Any], index: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """Takes [T', N, ...] by indices into the flattened first two axes of [T, N, ...]."""
    taken: npt.NDArray[Any] = as_rows(leaf).take(index, axis=0)
    return taken


def get_nstep_return_data(
    data: Sequence[Mapping[str, Tree]],
    nstep: int,
    cum_reward: bool = False,
    correct_terminate_gamma: bool = True,
    gamma: float = 0.99,
) -> list[Row]:
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
    rows: list[Row] = []
    data = list(data)  # a deque has no slices
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
        if "truncated" in final:
            new["truncated"] = final["truncated"]
        if correct_terminate_gamma:
            new["value_gamma"] = gamma ** len(bridge)
        rows.append(new)
    return rows


def _bridge(window: Sequence[Mapping[str, Tree]]) -> Sequence[Mapping[str, Tree]]:
    """Cuts a window of rows after the first that ends an episode."""
    for position, row in enumerate(window):
        if row["done"] or row.get("truncated", False):
            return window[: position + 1]
    return window


def _discounted(rewards: Sequence[Tree], gamma: float) -> Tree:
    total = rewards[0]
    for step, reward in enumerate(rewards[1:], start=1):
        total = total + gamma**step * reward
    return total


def _padded(rewards: Sequence[Tree], nstep: int) -> Tree:
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
