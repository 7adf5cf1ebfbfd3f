"""IQN (Dabney et al. 2018, arXiv:1806.06923): quantiles of the return at random fractions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dicore.data import Tree
from dicore_plugins.functional.distributional import qrdqn_loss, quantile_target
from dicore_plugins.policies.value.distributional import DistributionalPolicy
from dicore_plugins.policies.value.iqn_config import IQNConfig

__all__ = ["IQNPolicy"]


class IQNPolicy(DistributionalPolicy):
    """Distributional Q-learning by quantile regression at fractions drawn for each update."""

    config_class = IQNConfig
    _cfg: IQNConfig

    def _outputs(self, model: Any, obs: Tree, rows: int) -> list[Tensor]:
        learn = self._cfg.learn
        count = learn.num_quantiles if model is self._model else learn.num_target_quantiles
        self._fraction = torch.rand(rows, count, device=self._device)
        outputs: list[Tensor] = model.distribution(obs, self._fraction)
        return outputs

    def _head_loss(
        self, output: Tensor, next_output: Tensor, bridged: Any, weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            target = quantile_target(next_output, *bridged)
        kappa = self._cfg.learn.kappa
        return *qrdqn_loss(output, target, self._fraction, weight, kappa), target.mean(1)
