"""QTRAN-base (Son et al. 2019, arXiv:1905.05408).

Q(s, u) and V(s) of the team are networks of their own; those of the agents are fitted so that their
best actions u^ are the best ones of the team (equations 4 to 6):

    L_td   = (Q(s, u) - y)^2,  y = R + gamma (1 - done) Q'(s', u'^)
    L_opt  = (sum_a Q_a(o_a, u^_a) - Q(s, u^) + V(s))^2
    L_nopt = min(sum_a Q_a(o_a, u_a) - Q(s, u) + V(s), 0)^2

Q(s, .) is constant in the last two.

Shapes: B rows, A agents.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore_agents.models.mixers import chosen_of
from dicore_agents.models.observations import alive_of
from dicore_agents.policies.value.base import AgentQPolicy
from dicore_agents.policies.value.config import QTRANConfig
from dicore_plugins.functional import td_loss

__all__ = ["QTRANPolicy"]


class QTRANPolicy(AgentQPolicy):
    """Values of agents that agree with those of the team about the best actions."""

    config_class: ClassVar[type[PolicyConfig]] = QTRANConfig
    _cfg: QTRANConfig

    def _team_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        learn, obs, action = self._cfg.learn, batch["obs"], batch["action"].long()
        with torch.no_grad():
            _, following = self._best_next(batch)
            target = self._team_target(
                batch, self._target_model.joint_q(following, batch["next_obs"])
            )
        joint = self._model.joint_q(action, obs)
        loss, error = td_loss(joint, target, weight, learn.criterion, learn.huber_delta)
        q, alive = self._values(self._model, obs), alive_of(obs)
        best, value = q.detach().argmax(-1), self._model.state_value(obs)
        with torch.no_grad():
            joint_best = self._model.joint_q(best, obs)
        opt = (chosen_of(q, best, alive).sum(-1) - joint_best + value).square()
        short = chosen_of(q, action, alive).sum(-1) - joint.detach() + value
        nopt = short.clamp(max=0).square()
        agree = learn.opt_weight * opt + learn.nopt_weight * nopt
        return loss + (agree if weight is None else agree * weight).mean(), error, target
