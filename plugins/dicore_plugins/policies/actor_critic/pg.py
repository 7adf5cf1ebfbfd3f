"""REINFORCE (Williams 1992, doi:10.1007/BF00992696; Sutton and Barto 2018, sections 13.3, 13.4)."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore.interfaces.policy import Tail
from dicore_plugins.functional.policy_gradient import PolicyGradientLoss, a2c_error
from dicore_plugins.policies.actor_critic.base import ActorCriticPolicy
from dicore_plugins.policies.actor_critic.pg_config import PGConfig


class PGPolicy(ActorCriticPolicy):
    """One update per collect, from the returns of whole episodes."""

    config_class: ClassVar[type[PolicyConfig]] = PGConfig
    _cfg: PGConfig

    def _get_sample_len(self) -> Literal["episode"]:
        return "episode"

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        samples = super()._get_train_sample(block, tail)
        if not self._cfg.learn.baseline:
            samples.columns["advantage"] = samples["target"]
        return samples

    def _loss(
        self, batch: Batch, value: Tensor, log_prob: Tensor, entropy: Tensor, **settings: object
    ) -> tuple[PolicyGradientLoss, dict[str, Tensor]]:
        advantage, target = batch["advantage"], batch["target"]
        return a2c_error(log_prob, entropy, value, advantage, target, batch.get("weight")), {}
