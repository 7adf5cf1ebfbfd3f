"""Teams whose agents remember and that learn from a replay buffer: acting, and sequences.

A sample is a sequence of L = burn_in + unroll_len + nstep steps with the recurrent states before
it, as they were when acting (Kapturowski et al. 2019). The first steps warm up the states without
gradients, the last `nstep` only bootstrap. Episodes may end inside. Algorithms learn from sequences
as from single steps, whose observations have the `memory` of agents.

Shapes: T steps, N environments, B sequences, U = unroll_len, A agents, S numbers of a state, M of
what an agent remembers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from dicore.data import Batch, Columns, State, StateDict, Tree, tree_map
from dicore.interfaces.policy import Tail
from dicore_agents.policies.bridges import BridgedSamples
from dicore_plugins.functional import nstep_sequences, with_bridges
from dicore_plugins.policies import RecurrentPolicy

__all__ = ["RememberingPolicy", "acting_steps", "as_sequences", "as_steps"]

STATE = "prev_state"
"""Column with the recurrent states before each step."""
_BRIDGED = ("reward", "done", "value_gamma", "bridge")
"""Columns of n-step returns, of the steps of a sequence that are learned from."""


class RememberingPolicy(RecurrentPolicy):
    """Part of policies of teams that learn from a replay buffer; agents may remember."""

    of_team: ClassVar[bool] = False
    """Whether what is learned is the sum of the agents' rewards, where each has its own."""

    @property
    def bridges(self) -> bool:
        """Whether samples of a team's return cross steps in which nobody acts.

        Sequences do not, nor those of algorithms that know what comes from the state.
        """
        return not self._recurrent

    def _crosses(self, block: Batch) -> bool:
        """Returns whether the samples of a block may cross steps in which nobody acts."""
        of_team = self.of_team or block["reward"].ndim == 2
        return of_team and "alive" in block["obs"] and self.bridges

    def _bridged_samples(self, block: Batch, tail: Tail | None) -> Batch:
        return self._crossing.of_block(block, self._cfg.nstep, self._cfg.discount_factor, tail)

    @cached_property
    def _crossing(self) -> BridgedSamples:
        return BridgedSamples()

    def _reset_collect(self, data_id: Sequence[int] | None = None) -> None:
        super()._reset_collect(data_id)
        if data_id is None:  # else episodes have ended, which later blocks tell
            self._crossing.kept = None

    def _get_collect_state(self) -> StateDict:
        kept = self._crossing.kept
        return {**super()._get_collect_state(), **({} if kept is None else {"kept": kept})}

    def _set_collect_state(self, state: State) -> None:
        super()._set_collect_state(state)
        self._crossing.kept = state.get("kept")

    def _process_transition(self, obs: Tree, output: Columns, timestep: Tree) -> Columns:
        columns = super()._process_transition(obs, output, timestep)
        if not self._recurrent:
            return columns
        state = output.get(STATE)
        if state is None:  # a warm-up policy has none
            state = np.zeros((len(timestep.done), *self._model.hidden_shape), np.float32)
        return {**columns, STATE: state}

    def _get_sample_len(self) -> int | Literal["episode"]:
        if not self._recurrent:
            return super()._get_sample_len()
        collect = self._cfg.collect
        return int(collect.burn_in + collect.unroll_len + self._cfg.nstep)


def as_sequences(block: Batch, cfg: Any, shape: tuple[int, ...], tail: Any) -> Batch:
    """Cuts a block [T, N, ...] into sequences [B, L, ...]; n-step columns are [B, L - nstep].

    Args:
        block: Steps, with `reward` [T, N] or [T, N, A].
        cfg: The policy's section.
        shape: Shape of the states of a team, [A, S], which are zeros where the block has none.
        tail: What follows the block.
    """
    nstep, stride = cfg.nstep, cfg.collect.unroll_len
    length = cfg.collect.burn_in + stride + nstep
    whole = with_bridges(block, nstep, cfg.discount_factor, shape, tail)
    return nstep_sequences(whole, length, stride, nstep, tail)


def as_steps(batch: Batch, model: Any, target: Any, cfg: Any) -> Batch:
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
    time = _in_time(batch, "obs", "next_obs", "end", "action")
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


def acting_steps(batch: Batch, model: Any, cfg: Any) -> Batch:
    """Returns `obs` and `action` of the steps that `as_steps` returns."""
    first = cfg.collect.burn_in
    until = batch["end"].shape[1] - cfg.nstep
    time = _in_time(batch, "obs", "end", "action")
    time = tree_map(lambda leaf: leaf[:until], time)
    memory = _from(model, time, batch[STATE], first).memory
    obs, action = tree_map(lambda leaf: leaf[first:], (time["obs"], time["action"]))
    columns = {"obs": {**obs, "memory": memory}, "action": action}
    flat = tree_map(lambda leaf: leaf.flatten(0, 1), columns)
    return Batch(flat, (until - first) * len(batch))


def _in_time(batch: Batch, *keys: str) -> dict[str, Any]:
    """Returns columns [L, B, ...] of sequences [B, L, ...]."""
    return {key: tree_map(lambda leaf: leaf.transpose(0, 1), batch[key]) for key in keys}


def _from(model: Any, time: Mapping[str, Any], state: Tensor, first: int) -> Any:
    """Runs the memory over the steps [L', B, ...] after the burn-in; see `AgentNet.unrolled`."""
    obs, end = time["obs"], time["end"]
    if first:
        with torch.no_grad():
            early = tree_map(lambda leaf: leaf[:first], obs)
            state = model.unrolled(early, state, end[:first]).hidden
        obs, end = tree_map(lambda leaf: leaf[first:], (obs, end))
    return model.unrolled(obs, state, end)


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
    next_obs, end = tree_map(lambda leaf: leaf[first:], (time["next_obs"], time["end"]))
    found = _from(model, time, state, first)
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
