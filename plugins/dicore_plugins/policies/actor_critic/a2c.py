"""A2C: synchronous advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore_plugins.functional.policy_gradient import PolicyGradientLoss, a2c_error
from dicore_plugins.policies.actor_critic.a2c_config import A2CConfig
from dicore_plugins.policies.actor_critic.base import ActorCriticPolicy


class A2CPolicy(ActorCriticPolicy):
    """One pass over the samples of each collect, without ratios of probabilities."""

    config_class: ClassVar[type[PolicyConfig]] = A2CConfig
    _cfg: A2CConfig

    def _loss(
        self, batch: Batch, value: Tensor, log_prob: Tensor, entropy: Tensor, **settings: object
    ) -> tuple[PolicyGradientLoss, dict[str, Tensor]]:
        advantage, target = batch["advantage"], batch["target"]
        return a2c_error(log_prob, entropy, value, advantage, target, batch.get("weight")), {}
