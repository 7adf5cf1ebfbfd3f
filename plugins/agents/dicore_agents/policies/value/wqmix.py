"""Weighted QMIX (Rashid et al. 2020, arXiv:2006.10800).

QMIX cannot represent every value of a team; its errors are weighted so that it is right about the
best actions. Q* has no such limit and makes the targets:

    y = R + gamma (1 - done) Q*'(s', u'),  u'_a = argmax_u Q_a(o'_a, u)
    L = (Q*(s, u) - y)^2 + w (Q(s, u) - y)^2

w is 1, else alpha: CW where y > Q*(s, u^) or u = u^ (u^: the best action of each agent that acts;
section 5.1); OW where Q(s, u) < y (section 5.2).

Shapes: B rows, A agents.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore_agents.models.observations import alive_of
from dicore_agents.policies.value.base import AgentQPolicy
from dicore_agents.policies.value.config import WQMIXConfig
from dicore_plugins.functional import td_loss

__all__ = ["WQMIXPolicy"]


class WQMIXPolicy(AgentQPolicy):
    """QMIX with weighted errors, beside values without limits."""

    config_class: ClassVar[type[PolicyConfig]] = WQMIXConfig
    _cfg: WQMIXConfig

    def _team_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        learn, obs, action = self._cfg.learn, batch["obs"], batch["action"].long()
        with torch.no_grad():
            _, best = self._best_next(batch)
            target = self._team_target(
                batch, self._target_model.central_total(best, batch["next_obs"])
            )
        q = self._values(self._model, obs)
        total = self._model.total(q, action, obs)
        factor = self._factor(q, total.detach(), target, batch)
        factor = factor if weight is None else factor * weight
        form = learn.criterion, learn.huber_delta
        mixed, error = td_loss(total, target, factor, *form)
        free, _ = td_loss(self._model.central_total(action, obs), target, weight, *form)
        return mixed + free, error, target

    @torch.no_grad()
    def _factor(self, q: Tensor, total: Tensor, target: Tensor, batch: Batch) -> Tensor:
        """Computes w: float32 [B]."""
        learn = self._cfg.learn
        if learn.weighting == "optimistic":
            counts = total < target
        else:
            best = q.argmax(-1)
            equal, alive = best == batch["action"], alive_of(batch["obs"])
            same = (equal if alive is None else equal | (alive == 0)).all(-1)
            counts = same | (target > self._model.central_total(best, batch["obs"]))
        return torch.where(counts, 1.0, learn.alpha)
