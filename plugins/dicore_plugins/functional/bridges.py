"""Sequences of recurrent Q-learning: n-step returns and the states before them.

A sample has L steps, of which the last `nstep` only bootstrap (Kapturowski et al. 2019, R2D2).

Shapes: T steps, N environments, B sequences, S numbers of a state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dicore.data import Batch, Tree
from dicore_plugins.functional.samples import next_obs_of, nstep_columns, sequences

if TYPE_CHECKING:
    from dicore.interfaces.policy import Tail

BRIDGED: Final = ("reward", "done", "value_gamma", "bridge")
"""Columns of n-step returns, of the steps of a sequence that a target is known for."""
STATE: Final = "prev_state"
"""Column with the recurrent states before each step."""


def with_bridges(
    block: Batch, nstep: int, gamma: float, shape: tuple[int, ...], tail: Tail | None = None
) -> Batch:
    """Adds what recurrent Q-learning needs to a block.

    The n-step columns (`nstep_columns`) are zeros at the last steps, whose bridges are unknown;
    `bridge`, int64 [T, N], is the number of steps from a step to the last one of its bridge.

    Args:
        block: Columns [T, N, ...], with `reward` [T, N] or one per agent, [T, N, A].
        nstep: Steps of a return.
        gamma: Discount factor.
        shape: Shape of a recurrent state, which is zeros where the block has none.
        tail: What follows the block; None: it has `next_obs`.

    Returns:
        The block with `reward`, `done`, `value_gamma`, `bridge`, `next_obs` and `prev_state`.
    """
    end = block["end"]
    rows = np.broadcast_to(np.arange(len(block))[:, None], end.shape)
    starts = len(block) if end[-1].all() else None  # whole episodes
    found: dict[str, Any] = dict(
        nstep_columns(block["reward"], block["done"], end, rows, nstep, gamma, starts)
    )
    found["bridge"] = found.pop("next_obs") - rows[: len(found["reward"])]
    columns = {**block.columns, **{key: _padded(found[key], len(block)) for key in BRIDGED}}
    columns["next_obs"] = next_obs_of(block, tail)
    if STATE not in columns:  # recorded steps have none
        columns[STATE] = np.zeros((*end.shape, *shape), np.float32)
    return Batch(columns, len(block))


def nstep_sequences(
    block: Batch, length: int, stride: int, nstep: int, tail: Tail | None = None
) -> Batch:
    """Cuts a block of `with_bridges` into sequences.

    Args:
        block: Columns [T, N, ...].
        length: Steps of a sequence, L, with the last `nstep`, which only bootstrap.
        stride: Steps between the starts of two sequences.
        nstep: Steps of a return.
        tail: What follows the block; see `sequences`.

    Returns:
        Columns [B, L, ...]; n-step columns [B, L - nstep, ...], `prev_state` [B, S].
    """
    samples = sequences(block, length, stride, tail)
    cut = {key: samples[key][:, : length - nstep].copy() for key in BRIDGED}
    return Batch({**samples.columns, **cut, STATE: samples[STATE][:, 0].copy()}, len(samples))


def _padded(leaf: Tree, rows: int) -> Tree:
    out = np.zeros((rows, *leaf.shape[1:]), leaf.dtype)
    out[: len(leaf)] = leaf
    return out
