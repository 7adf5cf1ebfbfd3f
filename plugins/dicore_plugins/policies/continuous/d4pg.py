"""D4PG: distributed distributional DDPG (Barth-Maron et al. 2018, arXiv:1804.08617).

The critic estimates the probabilities of fixed returns, from projected n-step targets by the target
network and samples drawn by priority. Several environments collect at the same time.

Shapes: B samples, E networks, N atoms.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore_plugins.functional.distributional import c51_loss, c51_target
from dicore_plugins.policies.continuous.d4pg_config import D4PGConfig
from dicore_plugins.policies.continuous.td3 import TD3Policy


class D4PGPolicy(TD3Policy):
    """DDPG with the cross-entropy of projected distributions."""

    config_class: ClassVar[type[PolicyConfig]] = D4PGConfig
    _cfg: D4PGConfig
    needed: ClassVar[tuple[str, ...]] = (*TD3Policy.needed, "outputs", "support")

    def _critic_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the sum over the networks of the mean cross-entropies."""
        support = self._model.support
        with torch.no_grad():
            next_obs, bridged = batch["next_obs"], self._bridged(batch)
            after = self._target_model.outputs(next_obs, self._next_action(next_obs))
            targets = [c51_target(torch.softmax(each, 1), *bridged, support) for each in after]
        found = self._model.outputs(batch["obs"], self._unit_action(batch["action"]))
        losses, priorities = zip(
            *(c51_loss(*pair, weight) for pair in zip(found, targets, strict=True)), strict=True
        )
        value = self._model.expected(found.detach())
        return torch.stack(losses).sum(), torch.stack(priorities).mean(0), value
