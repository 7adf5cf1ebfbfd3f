"""Values of teams that are mixed of those of agents: VDN, QMIX, QPLEX; the network says how.

    y = R + gamma (1 - done) Q'(s', argmax_u Q_1(o'_1, u), .., argmax_u Q_A(o'_A, u))

R is the reward of the team. Samples of VDN, whose values are 0 where nobody acts, cross such steps;
see `BridgedSamples`. The mixers of the others see the state. The best joint action consists of each
agent's best one, which the mixers of `dicore_agents.models.mixers` keep true.

Shapes: B rows, A agents.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dicore.data import Batch
from dicore_agents.policies.value.base import AgentQPolicy
from dicore_plugins.functional import td_loss

__all__ = ["MixedQPolicy"]


class MixedQPolicy(AgentQPolicy):
    """Q-learning of the value of the team."""

    def _team_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        learn, obs = self._cfg.learn, batch["obs"]
        with torch.no_grad():
            later, best = self._best_next(batch)
            following = self._target_model.total(later, best, batch["next_obs"])
            target = self._team_target(batch, following)
        q = self._values(self._model, obs)
        total = self._model.total(q, batch["action"].long(), obs)
        loss, error = td_loss(total, target, weight, learn.criterion, learn.huber_delta)
        return loss, error, target
