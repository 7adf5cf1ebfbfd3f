"""Regularized behavioural cloning, which SQIL approximates (Reddy et al. 2019, arXiv:1905.11108).

    L = E_demo[-log pi(a|s)] + lambda E[(Q(s, a) - gamma (1 - done) V'(s'))^2]

with pi = softmax(Q / alpha) and V' the soft value. The second mean is over demonstrations and own
steps, whose rewards count as 0: it prefers sparse rewards (Piot et al. 2014).

Shapes: B samples, H heads.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore_plugins.functional.exploration import mask_of
from dicore_plugins.functional.imitation import bc_error
from dicore_plugins.policies.imitation.demonstrations import FromDemonstrations
from dicore_plugins.policies.imitation.rbc_config import RBCConfig
from dicore_plugins.policies.value.sqn import SQNPolicy

__all__ = ["RBCPolicy"]


class RBCPolicy(FromDemonstrations, SQNPolicy):
    """Learns Q values whose softmax are the actions shown, and whose rewards are sparse."""

    config_class: ClassVar[type[PolicyConfig]] = RBCConfig
    _cfg: RBCConfig
    _demo_reward: ClassVar[float | None] = 0.0

    def _loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        bellman, error, value = super()._loss(batch, weight)
        obs, demo = batch["obs"], batch["demo"]
        factor = demo * (len(demo) / demo.sum().clamp(min=1))  # the mean over demonstrations
        cloning, _ = bc_error(
            self._model(obs), self._action_index(batch["action"]), factor, mask_of(obs)
        )
        loss = torch.add(cloning, bellman, alpha=self._cfg.learn.bellman_weight)
        return loss, error, value
