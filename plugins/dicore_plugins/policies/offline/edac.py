"""EDAC: ensemble-diversified actor-critic (An et al. 2021, arXiv:2110.01548), over SAC.

Many Q networks, of which targets and actor take the least. Their gradients by the recorded actions
are pushed apart, so that fewer networks are enough.

Shapes: B samples, A dimensions, E Q networks.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore_plugins.functional.offline import diversity_error
from dicore_plugins.policies.continuous.sac import SACPolicy
from dicore_plugins.policies.offline.edac_config import EDACConfig


class EDACPolicy(SACPolicy):
    """SAC with an ensemble of diverse Q networks, from a dataset."""

    config_class: ClassVar[type[PolicyConfig]] = EDACConfig
    _cfg: EDACConfig

    def _critic_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the loss of SAC plus that of gradients which agree."""
        factor, count = self._cfg.learn.diversity, self._model.critic.count
        if not factor or count < 2:
            return super()._critic_loss(batch, weight)
        action = self._unit_action(batch["action"]).expand(count, -1, -1).clone().requires_grad_()
        q = self._model.q(batch["obs"], action)
        loss, priority, value = self._squared_loss(q, self._target(batch), weight)
        (gradient,) = torch.autograd.grad(q.sum(), action, create_graph=True)
        return loss + factor * diversity_error(gradient, weight), priority, value
