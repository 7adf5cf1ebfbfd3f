"""ReBRAC (Tarasov et al. 2023, arXiv:2305.09836): TD3+BC with two penalties.

V'(s') = min_e Q'_e(s', a') - beta_2 |a' - b'|^2, where a' is the smoothed action of the target
actor, and b' the recorded action in s'. The actor minimizes beta_1 |mu(s) - a|^2 - Q / mean |Q|,
Q = min_e Q_e(s, mu(s)). The Q networks have normalised layers.

Shapes: B samples, A dimensions.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore_plugins.functional.offline import rebrac_error
from dicore_plugins.policies.continuous.td3 import TD3Policy
from dicore_plugins.policies.offline.td3_bc_config import ReBRACConfig


class ReBRACPolicy(TD3Policy):
    """TD3 near the recorded actions; samples without `next_action` have no penalty beta_2."""

    config_class: ClassVar[type[PolicyConfig]] = ReBRACConfig
    _cfg: ReBRACConfig

    def _value_after(self, batch: Batch) -> Tensor:
        action = self._next_action(batch["next_obs"])
        value: Tensor = self._target_model.q(batch["next_obs"], action).amin(0)
        if "next_action" not in batch:
            return value
        away = (action - self._unit_action(batch["next_action"])).square().sum(1)
        return value - self._cfg.learn.critic_penalty * away.nan_to_num(0.0)  # NaN: after the last

    def _actor_loss(self, batch: Batch, action: Tensor) -> Tensor:
        q = self._model.q(batch["obs"], action, frozen=True).amin(0)
        shown = self._unit_action(batch["action"])
        loss: Tensor = rebrac_error(q, action, shown, self._cfg.learn.actor_penalty)
        return loss
