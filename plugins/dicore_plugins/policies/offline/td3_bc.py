"""TD3+BC (Fujimoto and Gu 2021, arXiv:2106.06860): TD3 whose actor also imitates the data.

The actor minimizes (mu(s) - a)^2 - lambda Q(s, mu(s)), lambda = alpha / mean |Q(s, mu(s))|.

Shapes: B samples, A dimensions.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore_plugins.functional.offline import td3_bc_error
from dicore_plugins.policies.continuous.td3 import TD3Policy
from dicore_plugins.policies.offline.td3_bc_config import TD3BCConfig


class TD3BCPolicy(TD3Policy):
    """TD3 with behavioural cloning, from a dataset."""

    config_class: ClassVar[type[PolicyConfig]] = TD3BCConfig
    _cfg: TD3BCConfig

    def _actor_loss(self, batch: Batch, action: Tensor) -> Tensor:
        q = self._model.q(batch["obs"], action, frozen=True)[0]
        loss: Tensor = td3_bc_error(
            q, action, self._unit_action(batch["action"]), self._cfg.learn.alpha
        )
        return loss
