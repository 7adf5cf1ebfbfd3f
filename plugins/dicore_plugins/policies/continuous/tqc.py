"""TQC: truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269).

The networks estimate quantiles of the return. The target of each quantile is the set of all
networks' next quantiles without the largest ones, less alpha log pi(a'|s').

Shapes: B samples, E networks, N quantiles, M target quantiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore_plugins.functional.distributional import (
    qrdqn_loss,
    quantile_target,
    truncated_quantiles,
)
from dicore_plugins.policies.continuous.sac import SACPolicy
from dicore_plugins.policies.continuous.tqc_config import TQCConfig
from dicore_plugins.policies.outputs import Signature


class TQCPolicy(SACPolicy):
    """SAC whose critics are networks of quantiles; the actor maximizes the mean of all."""

    config_class: ClassVar[type[PolicyConfig]] = TQCConfig
    _cfg: TQCConfig
    needed: ClassVar[tuple[str, ...]] = (*SACPolicy.needed, "outputs", "fraction")
    shapes: ClassVar[Mapping[str, Signature]] = {
        **SACPolicy.shapes, "outputs": ("A", "EBN")
    }  # fmt: skip

    def _critic_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the mean over the quantiles of the sum over networks of the quantile loss."""
        with torch.no_grad():
            target = quantile_target(self._next_quantiles(batch), *self._bridged(batch))
        found = self._model.outputs(batch["obs"], self._unit_action(batch["action"]))
        networks, _, quantiles = found.shape
        fraction = self._model.fraction.repeat(networks)
        flat = found.transpose(0, 1).flatten(1)
        loss, error = qrdqn_loss(flat, target, fraction, weight)
        return loss / quantiles, error, flat.mean(1)

    def _next_quantiles(self, batch: Batch) -> Tensor:
        """Computes the M quantiles of the soft return from the next states: float32 [B, M]."""
        action, log_prob = self._sample(batch["next_obs"])
        found = self._target_model.outputs(batch["next_obs"], action)
        kept = truncated_quantiles(found, self._cfg.learn.top_quantiles_to_drop)
        return torch.addcmul(kept, self._alpha, log_prob.unsqueeze(1), value=-1)

    def _actor_value(self, q: Tensor) -> Tensor:
        return q.mean(0)
