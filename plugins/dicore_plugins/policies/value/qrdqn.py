"""QR-DQN (Dabney et al. 2018, arXiv:1710.10044): the return as quantiles."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dicore_plugins.functional.distributional import qrdqn_loss, quantile_target
from dicore_plugins.policies.value.distributional import DistributionalPolicy
from dicore_plugins.policies.value.qrdqn_config import QRDQNConfig

__all__ = ["QRDQNPolicy"]


class QRDQNPolicy(DistributionalPolicy):
    """Distributional Q-learning by quantile regression."""

    config_class = QRDQNConfig
    _cfg: QRDQNConfig

    def _head_loss(
        self, output: Tensor, next_output: Tensor, bridged: Any, weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            target = quantile_target(next_output, *bridged)
        kappa, fraction = self._cfg.learn.kappa, self._model.fraction
        return *qrdqn_loss(output, target, fraction, weight, kappa), target.mean(1)
