"""C51 (Bellemare et al. 2017, arXiv:1707.06887): the return as probabilities of fixed atoms."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dicore_plugins.functional.distributional import c51_loss, c51_target
from dicore_plugins.policies.value.c51_config import C51Config
from dicore_plugins.policies.value.distributional import DistributionalPolicy

__all__ = ["C51Policy"]


class C51Policy(DistributionalPolicy):
    """Distributional Q-learning by the cross-entropy of projected distributions."""

    config_class = C51Config
    _cfg: C51Config

    def _head_loss(
        self, output: Tensor, next_output: Tensor, bridged: Any, weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        support = self._model.support
        with torch.no_grad():
            reward, done, value_gamma = bridged
            probability = torch.softmax(next_output, 1)
            target = c51_target(probability, reward, done, value_gamma, support)
        return *c51_loss(output, target, weight), target @ support
