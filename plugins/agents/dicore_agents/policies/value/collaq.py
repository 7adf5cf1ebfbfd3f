"""COLLAQ: collaboration by decomposing what agents earn (Zhang et al. 2020, arXiv:2010.08531).

The value of an agent has two parts: of what it would earn alone, and of what working together adds
(equation 9). The second has to be 0 where an agent sees no others, o' (the MARA loss, equation 10):

    Q_a(o, u) = Q_alone(o', u) + Q_collab(o, u)
    L = (y - Q(s, u))^2 + weight * mean_a Q_collab(o'_a, u_a)^2

y and Q(s, u) are those of QMIX, which mixes the values of the agents, as in the paper.

Shapes: B rows, A agents.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore_agents.models.mixers import chosen_of
from dicore_agents.models.observations import alive_of
from dicore_agents.policies.value.config import CollaQConfig
from dicore_agents.policies.value.mixed import MixedQPolicy

__all__ = ["CollaQPolicy"]


class CollaQPolicy(MixedQPolicy):
    """QMIX of values that are split into what an agent earns alone, and together with others."""

    config_class: ClassVar[type[PolicyConfig]] = CollaQConfig
    _cfg: CollaQConfig
    network_has = ("collab_alone",)

    def _team_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        loss, error, target = super()._team_loss(batch, weight)
        obs = batch["obs"]
        q = self._model.collab_alone(obs)
        squares = chosen_of(q, batch["action"].long(), alive_of(obs)).square()
        each = self._agent_weight(batch, weight)
        mara = (squares if each is None else squares * each).mean()
        return loss + self._cfg.learn.mara_weight * mara, error, target
