"""CQL: conservative Q-learning (Kumar et al. 2020, arXiv:2006.04779), over SAC.

The loss of the critics is that of SAC plus

    alpha (log sum_a exp Q(s, a) - Q(s, a_data)),

which lowers the values of actions that the data lacks. The sum is estimated from actions that are
uniform, of the policy in s, and of the policy in s'.

Shapes: B samples, A dimensions, E Q networks, M actions of each kind.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Tree, tree_map
from dicore_plugins.functional.offline import cql_error
from dicore_plugins.policies.continuous.sac import SACPolicy
from dicore_plugins.policies.offline.cql_config import CQLConfig


class CQLPolicy(SACPolicy):
    """SAC with conservative critics, from a dataset."""

    config_class: ClassVar[type[PolicyConfig]] = CQLConfig
    _cfg: CQLConfig

    def _critic_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the loss of SAC plus the conservative term."""
        q = self._q_taken(batch)
        loss, priority, value = self._squared_loss(q, self._target(batch), weight)
        if factor := self._cfg.learn.conservative_weight:
            loss = loss + factor * cql_error(q, *self._sampled(batch), weight)
        return loss, priority, value

    def _next_value(self, next_obs: Tree) -> Tensor:
        if self._cfg.learn.soft_target:
            return super()._next_value(next_obs)
        action, _ = self._sample(next_obs)
        value: Tensor = self._target_model.q(next_obs, action).amin(0)
        return value

    def _sampled(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Computes the values of sampled actions, [E, B, 3 M], and their log-densities [B, 3 M]."""
        count, samples = self._cfg.learn.n_action, len(batch)
        obs = _repeated(batch["obs"], count)
        with torch.no_grad():
            now, log_now = self._sample(obs)
            after, log_after = self._sample(_repeated(batch["next_obs"], count))
            drawn = self._noise.uniform(-1, 1, tuple(now.shape)).astype(np.float32)
            anywhere = torch.from_numpy(drawn).to(self._device)
            log_anywhere = torch.full_like(log_now, -math.log(2) * now.shape[1])
        action = torch.cat((anywhere, now, after))
        q = self._model.q(tree_map(lambda leaf: torch.cat((leaf,) * 3), obs), action)
        log_density = torch.cat((log_anywhere, log_now, log_after))
        by_state = q.view(len(q), 3, samples, count).transpose(1, 2).flatten(2)
        return by_state, log_density.view(3, samples, count).transpose(0, 1).flatten(1)


def _repeated(obs: Tree, count: int) -> Tree:
    """Repeats each observation: [B * count, ...]."""
    return tree_map(lambda leaf: leaf.repeat_interleave(count, 0), obs)
