"""What actor-critic policies with a recurrent network do differently: values, and sequences.

A sample is a sequence of `unroll_len` steps with the recurrent state before its first step, as it
was when acting. The state is zero after the end of an episode, also inside of a sequence.

Shapes: T steps, N environments, B sequences, L steps of a sequence, S elements of a state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dicore.data import Batch, Tree, tree_map
from dicore.interfaces.policy import Tail
from dicore_plugins.functional.samples import rows_after, sequences

STATE = "prev_state"
"""Column with the recurrent state before each step."""


def block_values(model: Any, block: Batch, tail: Tail, device: str) -> tuple[Any, Any]:
    """Computes the values before and after each step: float32 [T, N] each.

    Args:
        model: The network, with `unroll`.
        block: Columns [T, N, ...], with the states before the steps.
        tail: What follows the block.
        device: Device of the network.
    """

    def tensor(leaf: Tree) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(leaf)).to(device)

    with torch.inference_mode():
        obs, end = tree_map(tensor, block["obs"]), tensor(block["end"])
        found = model.unroll(obs, tensor(block[STATE][0]), end)
        last = model(tree_map(tensor, tail.obs), found["hidden"])["value"]
        ended = np.empty(0, np.float32)
        if len(tail.final_index):
            finals = tree_map(tensor, tail.final_obs)
            known = np.searchsorted(np.flatnonzero(block["end"]), tail.final_index)
            states = found["ended"][tensor(known)]  # episodes of failed envs have no last one
            ended = model(finals, states)["value"].cpu().numpy()
    value = found["value"].cpu().numpy()
    return value, rows_after(value, last.cpu().numpy(), ended, tail)


def as_sequences(block: Batch, length: int, tail: Tail | None) -> Batch:
    """Cuts a block with all columns of learning into sequences [B, L, ...]."""
    samples = sequences(block, length, length, tail)
    return Batch({**samples.columns, STATE: samples[STATE][:, 0].copy()}, len(samples))


def unrolled(model: Any, batch: Batch, names: Sequence[str]) -> tuple[Batch, Mapping[str, Any]]:
    """Runs the network over sequences.

    Args:
        model: The network, with `unroll`.
        batch: Columns [B, L, ...].
        names: The columns to return.

    Returns:
        The columns and the outputs of the network as single steps [L * B, ...].
    """
    columns = {key: batch[key] for key in (*names, "end") if key in batch}
    by_time = tree_map(lambda leaf: leaf.transpose(0, 1), columns)
    output = model.unroll(by_time["obs"], batch[STATE], by_time["end"])
    rest = {key: each for key, each in output.items() if key not in ("hidden", "ended")}
    return Batch(steps(by_time)), steps(rest)


def steps(tree: Tree) -> Tree:
    """Flattens the first two axes of a tree of tensors."""
    return tree_map(lambda leaf: leaf.flatten(0, 1), tree)
