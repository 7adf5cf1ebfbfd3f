"""IMPALA: actor-critic with V-trace (Espeholt et al. 2018, arXiv:1802.01561).

Samples are sequences of `unroll_len` steps with the log-probabilities of the policy that acted.

Shapes: B sequences, T steps.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Tree, tree_map
from dicore.errors import SchemaError
from dicore.interfaces.policy import Tail
from dicore_plugins.functional.off_policy import vtrace
from dicore_plugins.functional.policy_gradient import PolicyGradientLoss, a2c_error
from dicore_plugins.functional.samples import as_rows, next_obs_of, sequences
from dicore_plugins.policies.acting import evaluating
from dicore_plugins.policies.actor_critic.base import DISTRIBUTION, ActorCriticPolicy
from dicore_plugins.policies.actor_critic.impala_config import IMPALAConfig
from dicore_plugins.policies.base import Results


class IMPALAPolicy(ActorCriticPolicy):
    """Updates from replayed sequences; V-trace corrects for the policy that collected them."""

    config_class: ClassVar[type[PolicyConfig]] = IMPALAConfig
    _cfg: IMPALAConfig
    _dropped: ClassVar[tuple[str, ...]] = DISTRIBUTION
    """Columns of a block that samples do not have."""

    def _updates(self, batch: Batch, **settings: float) -> list[Results]:
        """Runs one update from sequences [B, T, ...]."""
        if batch["reward"].dim() != 2:
            shape = list(batch["reward"].shape)
            name = self._cfg.type or "this policy"
            raise SchemaError(f"{name} learns from sequences; expected rewards [B, T], got {shape}")
        self._length = batch["reward"].shape[1]
        columns = {key: each for key, each in batch.items() if key in _USED}
        result = self._update(Batch(self._steps(columns)), **settings)
        assert result is not None
        return [result]

    def _steps(self, column: Tree) -> Tree:
        return tree_map(as_rows, column)

    def _loss(
        self, batch: Batch, value: Tensor, log_prob: Tensor, entropy: Tensor, **settings: object
    ) -> tuple[PolicyGradientLoss, dict[str, Tensor]]:
        learn, shape = self._cfg.learn, (-1, self._length)
        with torch.no_grad(), evaluating(self._switched):
            next_value = self._critic(batch["next_obs"])
        done = batch["done"] * 0 if learn.ignore_done else batch["done"]
        change = (log_prob.detach() - batch["log_prob"]).reshape(shape)
        found = vtrace(
            change,
            batch["reward"].reshape(shape),
            value.detach().reshape(shape),
            next_value.reshape(shape),
            done.reshape(shape),
            batch["end"].reshape(shape),
            gamma=self._cfg.discount_factor,
            vtrace_lambda=learn.vtrace_lambda,
            rho_clip=learn.rho_clip,
            c_clip=learn.c_clip,
        )
        advantage, target = found.advantage.reshape(-1), found.target.reshape(-1)
        if learn.adv_norm:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        info = {"approx_kl": (change.exp() - 1 - change).mean()}
        return a2c_error(log_prob, entropy, value, advantage, target), info

    def _normalise_values(self, batch: Batch) -> None:
        """Does nothing: targets depend on the values."""

    def _get_sample_len(self) -> int:
        return int(self._cfg.collect.unroll_len)

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Cuts a block into sequences with `log_prob` and `next_obs`."""
        self._need_one_reward(block)
        columns = {key: each for key, each in block.items() if key not in self._dropped}
        columns["log_prob"] = self._acted_log_prob(block).reshape(block["end"].shape)
        columns["next_obs"] = next_obs_of(block, tail)
        length = int(self._cfg.collect.unroll_len)
        return sequences(Batch(columns, len(block)), length, length, tail)

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "approx_kl"]


_USED = (*("obs", "action", "raw_action", "log_prob", "reward", "next_obs", "done", "end"), "logit")
"""Columns that an update needs."""
