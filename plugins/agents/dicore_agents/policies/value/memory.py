"""Sequences of teams whose agents remember: made when collected, and as single steps when learned.

A sample is a sequence of L = burn_in + unroll_len + nstep steps with the recurrent states before
it, as they were when acting (Kapturowski et al. 2019). The first steps warm up the states without
gradients, the last `nstep` only bootstrap. Episodes may end inside.

Shapes: T steps, N environments, B sequences, U = unroll_len, A agents, S numbers of a state, M of
what an agent remembers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dicore.data import Batch, Tree, tree_map
from dicore_plugins.functional import next_obs_of, nstep_columns, sequences

if TYPE_CHECKING:
    from dicore_agents.policies.value.config import TeamQConfig

__all__ = ["as_sequences", "as_steps"]

STATE = "prev_state"
"""Column with the recurrent states before each step."""
_BRIDGED = ("reward", "done", "value_gamma", "bridge")
"""Columns of n-step returns, of the steps of a sequence that are learned from."""


def as_sequences(block: Batch, cfg: TeamQConfig, shape: tuple[int, ...], tail: Any) -> Batch:
    """Cuts a block [T, N, ...] into sequences [B, L, ...]; n-step columns are [B, L - nstep].

    Args:
        block: Steps, with `reward` [T, N] or [T, N, A].
        cfg: The policy's section.
        shape: Shape of the states of a team, [A, S], which are zeros where the block has none.
        tail: What follows the block.
    """
    nstep, unroll_len = cfg.nstep, cfg.collect.unroll_len
    length = cfg.collect.burn_in + unroll_len + nstep
    columns = {**block.columns, **_bridges(block, cfg), "next_obs": next_obs_of(block, tail)}
    if STATE not in columns:  # recorded steps have none
        columns[STATE] = np.zeros((*block["end"].shape, *shape), np.float32)
    samples = sequences(Batch(columns, len(block)), length, unroll_len, tail)
    cut = {key: samples[key][:, : length - nstep].copy() for key in _BRIDGED}
    state = samples[STATE][:, 0].copy()
    return Batch({**samples.columns, **cut, STATE: state}, len(samples))


def _bridges(block: Batch, cfg: TeamQConfig) -> dict[str, Any]:
    """Computes the n-step columns [T, N, ...]; zeros at the last steps, whose bridges are unknown.

    `bridge` is the number of steps from a step to the last one of its bridge.
    """
    end = block["end"]
    rows = np.broadcast_to(np.arange(len(block))[:, None], end.shape)
    starts = len(block) if end[-1].all() else None  # whole episodes
    found: dict[str, Any] = dict(
        nstep_columns(
            block["reward"], block["done"], end, rows, cfg.nstep, cfg.discount_factor, starts
        )
    )
    found["bridge"] = found.pop("next_obs") - rows[: len(found["reward"])]
    return {key: _padded(found[key], len(block)) for key in _BRIDGED}


def _padded(leaf: Tree, rows: int) -> Tree:
    out = np.zeros((rows, *leaf.shape[1:]), leaf.dtype)
    out[: len(leaf)] = leaf
    return out


def as_steps(batch: Batch, model: Any, target: Any, cfg: TeamQConfig) -> Batch:
    """Returns the steps of sequences that are learned from, with what agents remember.

    Args:
        batch: Sequences [B, L, ...].
        model: The network; gradients flow back through its memory.
        target: The target network.
        cfg: The policy's section.

    Returns:
        Steps [U * B, ...], step by step, as without a memory. `obs` and `chooser_obs`, which equals
        `next_obs`, have the `memory` of the network, `next_obs` that of the target network.
    """
    first, rows = cfg.collect.burn_in, len(batch)
    time = {
        key: tree_map(lambda leaf: leaf.transpose(0, 1), batch[key])
        for key in ("obs", "next_obs", "end", "action")
    }
    steps = len(time["end"]) - first - cfg.nstep
    until = first + steps
    bridged = {key: batch[key].reshape(rows, until, -1).transpose(0, 1)[first:] for key in _BRIDGED}
    last = bridged.pop("bridge")[..., 0] + torch.arange(steps, device=batch["end"].device)[:, None]
    memory, after = _memories(model, time, batch[STATE], first)
    with torch.no_grad():
        _, later = _memories(target, time, batch[STATE], first)
    seen = tree_map(lambda leaf: leaf[first:until], time["obs"])
    following = tree_map(lambda leaf: _at(leaf[first:], last), time["next_obs"])
    columns = {
        "obs": {**seen, "memory": memory[:steps]},
        "action": time["action"][first:until],
        "next_obs": {**following, "memory": _at(later, last)},
        "chooser_obs": {**following, "memory": _at(after, last)},
    }
    flat = tree_map(lambda leaf: leaf.flatten(0, 1), {**columns, **bridged})
    one = {key: each.squeeze(1) if each.shape[1:] == (1,) else each for key, each in
           ((key, flat[key]) for key in bridged)}  # fmt: skip
    return Batch({**flat, **one}, steps * rows)


def _memories(
    model: Any, time: Mapping[str, Any], state: Tensor, first: int
) -> tuple[Tensor, Tensor]:
    """Returns what agents remember in each step after the burn-in, and after it: [L', B, A, M].

    The latter has no graph; after the last step it is zeros, unless its episode ends.

    Args:
        model: The network.
        time: Columns [L, B, ...].
        state: [B, A, S]; before the first step.
        first: Steps of the burn-in.
    """
    obs, next_obs, end = (time[key] for key in ("obs", "next_obs", "end"))
    if first:
        with torch.no_grad():
            early = tree_map(lambda leaf: leaf[:first], obs)
            state = model.unrolled(early, state, end[:first]).hidden
        obs, next_obs, end = tree_map(lambda leaf: leaf[first:], (obs, next_obs, end))
    found = model.unrolled(obs, state, end)
    memory: Tensor = found.memory
    after = torch.cat([memory[1:], torch.zeros_like(memory[:1])]).detach()
    over = end.bool()
    if len(found.ended):
        with torch.no_grad():
            finals = tree_map(lambda leaf: leaf[over], next_obs)
            after[over] = model.remember(finals, found.ended.detach())[0]
    return memory, after


def _at(leaf: Tensor, last: Tensor) -> Tensor:
    """Takes the rows [U, B, ...] of steps [U, B] from [L', B, ...]."""
    return leaf[last, torch.arange(last.shape[1], device=last.device)]
