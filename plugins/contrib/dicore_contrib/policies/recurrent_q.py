"""Recurrent SAC and TD3, for partially observed environments (Ni et al. 2022, arXiv:2110.05038).

Actor and Q networks see the history of an episode through recurrent layers, h of the actor and g of
the Q networks; apart from that the losses are those of `sac` and `td3`, means over the steps t of
sequences from the buffer:

    h_t = H(h_{t-1}, o_t),   g_t = G(g_{t-1}, o_t)
    y_t = r_t + gamma (1 - done) V'(t+1)
    L_Q = sum_e mean_t (Q_e(g_t, o_t, a_t) - y_t)^2
    SAC:  V'(t+1) = min_e Q'_e(g'_{t+1}, o_{t+1}, a') - alpha log pi(a' | h_{t+1}, o_{t+1})
    TD3:  V'(t+1) = min_e Q'_e(g'_{t+1}, o_{t+1}, clip(mu'(h'_{t+1}, o_{t+1}) + clip(noise)))

mu is the tanh of an output x, which TD3 keeps where tanh is not flat, by c = `learn.output_weight`:

    L_mu = -mean_t Q_1(g_t, o_t, tanh x_t) + c |mean_t Q_1| mean_t x_t^2

A sequence goes on from the states that the networks had when it was collected, and its first
`burn_in` steps only warm them up, without gradients (Kapturowski et al. 2019). The paper begins at
zeros, and gives the networks the former action and reward: for these, use the env wrapper
`prev_action_reward`.

Shapes: K ready environments, B sequences of L steps, M of the steps are learned from, S numbers of
a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from dicore.config import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, Tree, tree_map
from dicore.errors import SchemaError
from dicore_contrib.models.recurrent_qac import History, RecurrentQAC
from dicore_contrib.policies.recurrent_q_config import RecurrentSACConfig, RecurrentTD3Config
from dicore_plugins.functional import to_batch
from dicore_plugins.policies import (
    ContinuousQPolicy,
    RecurrentPolicy,
    Results,
    SACPolicy,
    TD3Policy,
)

__all__ = ["RecurrentSACPolicy", "RecurrentTD3Policy"]

_STATE = "prev_state"


class _Steps(Batch):
    """The M steps that are learned from; tensors, whose observations are histories."""

    def to_torch(self) -> Batch:
        return self

    def to(self, *_: object, **__: object) -> Batch:
        return self


class SequenceQPolicy(RecurrentPolicy, ContinuousQPolicy):
    """Part of policies with Q networks that learn from sequences of a `RecurrentQAC`."""

    network_class: ClassVar[type | None] = RecurrentQAC
    shapes: ClassVar[Mapping[str, Any]] = {}  # its methods take histories

    @cached_property
    def _recurrent(self) -> bool:
        return True

    # ---- acting

    def _init_collect(self) -> None:
        super()._init_collect()
        self._collect_model = self._remembering(self._actor)

    def _init_eval(self) -> None:
        super()._init_eval()
        self._eval_model = self._remembering(self._actor)

    def _outputs(self, batch: EnvBatch[Tree], *, explores: bool) -> Columns:
        model = self._collect_model if explores else self._eval_model
        found: Columns = model.forward(batch.value, env_id=batch.env_id)
        return found

    def _process_transition(self, obs: Tree, output: Columns, timestep: Any) -> dict[str, Any]:
        columns = super()._process_transition(obs, output, timestep)
        state = output.get(_STATE)
        if state is None:  # a warm-up policy has none
            state = np.zeros((len(timestep.done), self._model.state_size), np.float32)
        return {**columns, _STATE: state}

    # ---- learning

    def _forward_learn(self, data: Any, **options: object) -> Columns:
        """Runs one update of critics and actor.

        Args:
            data: B sequences [B, L, ...] of obs, action, reward, next_obs and done, with
                `prev_state` [B, S] before the first step and `loss_mask` [B, L]: 1 for the steps to
                learn from.
            **options: No effect.

        Returns:
            The results of `sac` or `td3`, without priorities.

        Raises:
            SchemaError: they have no states.
        """
        results = super()._forward_learn(self._steps_of(to_batch(data, self._device)), **options)
        results.pop("priority", None)
        return results

    def _steps_of(self, batch: Batch) -> Batch:
        """Returns the M steps of sequences that are learned from, with their histories.

        Single steps are sequences of one; without `loss_mask`, all steps are learned from.
        """
        if _STATE not in batch:
            raise SchemaError(
                f"{self}: the samples have no column '{_STATE}'",
                hint="draw them from a buffer 'sequence' with state_keys=['prev_state']",
            )
        state = batch[_STATE]
        if batch["reward"].dim() == 1:
            columns = {key: batch[key] for key in ("obs", "next_obs", "action", "reward", "done")}
            batch = Batch(tree_map(lambda leaf: leaf.unsqueeze(1), columns), len(batch))
        mask = batch.get("loss_mask")
        burn_in = 0 if mask is None else int(self._cfg.other.replay_buffer["burn_in"])
        chosen = (torch.ones_like(batch["reward"]) if mask is None else mask).T > 0
        fresh = chosen[:burn_in].any(0)

        def extended(first: Tensor, later: Tensor) -> Tensor:
            return torch.cat([first[:, :1], later], 1).transpose(0, 1)

        obs = tree_map(extended, batch["obs"], batch["next_obs"])
        none = torch.zeros_like(chosen[:1])
        found: dict[str, Any] = {
            key: batch[key].transpose(0, 1)[chosen] for key in ("action", "reward", "done")
        }
        found["obs"] = History(obs, state, chosen, burn_in, fresh)
        found["next_obs"] = History(obs, state, torch.cat([none, chosen]), burn_in, fresh)
        return _Steps(found, int(chosen.sum()))


class RecurrentSACPolicy(SequenceQPolicy, SACPolicy):
    """SAC that remembers."""

    config_class: ClassVar[type[PolicyConfig]] = RecurrentSACConfig
    kept: ClassVar[tuple[str, ...]] = (*SACPolicy.kept, _STATE)


class RecurrentTD3Policy(SequenceQPolicy, TD3Policy):
    """TD3 that remembers."""

    config_class: ClassVar[type[PolicyConfig]] = RecurrentTD3Config
    kept: ClassVar[tuple[str, ...]] = (_STATE,)
    _cfg: RecurrentTD3Config

    def _update_actor(self, batch: Batch) -> Results:
        learn = self._cfg.learn
        if self._update_count % learn.actor_update_freq:
            return {"actor_loss": None}
        output = self._model.policy(batch["obs"])["mean"]
        loss = self._actor_loss(batch, torch.tanh(output))
        loss = loss + learn.output_weight * loss.detach().abs() * output.square().mean()
        self._step("actor", loss)
        self._move_target("actor", "critic")
        return {"actor_loss": loss.detach()}
