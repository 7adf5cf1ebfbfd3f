"""BDQ (Tavakoli et al. 2018, arXiv:1711.08946): the parts of an action share one target."""

from __future__ import annotations

import torch
from torch import Tensor

from dicore.data import Batch
from dicore_plugins.policies.value.bdq_config import BDQConfig
from dicore_plugins.policies.value.dqn import DQNPolicy

__all__ = ["BDQPolicy"]


class BDQPolicy(DQNPolicy):
    """DQN whose target is the mean over the heads, y = r + gamma mean_h Q'_h(s', a_h)."""

    config_class = BDQConfig
    _cfg: BDQConfig

    def _target(self, batch: Batch) -> Tensor | list[Tensor]:
        targets = super()._target(batch)
        if isinstance(targets, Tensor):
            return targets
        return [torch.stack(targets).mean(0)] * len(targets)
