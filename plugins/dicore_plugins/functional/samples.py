"""From time-major blocks of transitions to training samples, and from samples to tensors.

Shapes: T steps, N environments, B samples, `...` one item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dicore.data import Batch, tree_map
from dicore_plugins.functional.nstep import nstep_columns

_CALCULATED = ("reward", "done", "value_gamma", "weight", "IS")


def flatten_time(block: Batch) -> Batch:
    """Turns columns [T, N, ...] into [T * N, ...], step by step; `end` is left out.

    The columns are views of the block wherever numpy can make one; `done` becomes float32.
    """
    columns = {key: column for key, column in block.items() if key != "end"}
    count = len(block) * block["end"].shape[1]
    flat = tree_map(lambda leaf: leaf.reshape(count, *leaf.shape[2:]), columns)
    if "done" in flat:
        flat["done"] = flat["done"].astype(np.float32)
    return Batch(flat, count)


def nstep_samples(block: Batch, nstep: int, gamma: float) -> Batch:
    """Turns a block of T + nstep - 1 steps into n-step samples of its first T steps.

    Args:
        block: Columns [T + nstep - 1, N, ...] with `reward`, `next_obs`, `done` (termination) and
            `end` (the last step of an episode, however it ended).
        nstep: Steps of reward before bootstrapping.
        gamma: Discount factor.

    Returns:
        T * N samples: `reward` is the discounted sum, `next_obs` and `done` are those of the last
        step bridged, `value_gamma` float32 is gamma^k of the k steps bridged.
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
    """Returns rows as a Batch of tensors on `device`; CPU memory is shared, not copied.

    Columns that losses calculate with (`done`, rewards, weights) become float32 [B] whatever form
    the rows give them: bools, ints, arrays of shape (1,).
    """
    batch = data if isinstance(data, Batch) else Batch.from_rows(data)
    batch = batch.to_torch() if device == "cpu" else batch.to(device, non_blocking=True)
    columns = batch.columns
    odd = {
        key: columns[key]
        for key in _CALCULATED
        if key in columns and (columns[key].dim() > 1 or not columns[key].is_floating_point())
    }
    if not odd:
        return batch
    plain = {key: each.squeeze(1) if each.dim() > 1 else each for key, each in odd.items()}
    return Batch({**columns, **{key: each.float() for key, each in plain.items()}}, len(batch))
