"""CrossQ (Bhatt et al. 2024, arXiv:1902.05605): SAC without target networks.

The critics see states and next states in one batch, so that batch normalisation uses the statistics
of both; the values of the next states come from the critics that are trained.

Shapes: B samples, E Q networks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import torch
from torch import Tensor, nn

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Tree, tree_map
from dicore_plugins.functional.distributional import quantile_target
from dicore_plugins.policies.continuous.crossq_config import CrossQConfig
from dicore_plugins.policies.continuous.redq import REDQPolicy


class CrossQPolicy(REDQPolicy):
    """SAC with batch renormalisation, and an actor that is updated less often."""

    has_target: ClassVar[bool] = False
    config_class: ClassVar[type[PolicyConfig]] = CrossQConfig
    _cfg: CrossQConfig

    def _critic_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the sum over the Q networks of the mean squared TD errors."""
        with torch.no_grad():
            next_action, log_prob = self._sample(batch["next_obs"])
        obs = tree_map(lambda a, b: torch.cat((a, b)), batch["obs"], batch["next_obs"])
        action = torch.cat((self._unit_action(batch["action"]), next_action))
        with _training(self._model.critic):
            q, next_q = self._model.q(obs, action).chunk(2, 1)
        with torch.no_grad():
            value = torch.addcmul(self._least(next_q), self._alpha, log_prob, value=-1)
            target = quantile_target(value.unsqueeze(1), *self._bridged(batch)).squeeze(1)
        return self._squared_loss(q, target, weight)

    def _actor_loss(self, obs: Tree) -> tuple[Tensor, Tensor]:
        with _training(self._model.actor):
            return super()._actor_loss(obs)


@contextmanager
def _training(part: nn.Module) -> Iterator[None]:
    """Normalises by the statistics of the batch, and moves the running ones."""
    part.train()
    try:
        yield
    finally:
        part.eval()
