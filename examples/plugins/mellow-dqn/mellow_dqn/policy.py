"""DeepMellow (Kim et al. 2019, doi:10.24963/ijcai.2019/379): what differs from DQN.

    y = r + gamma_k (1 - done) mm(Q'(s', .)),  mm(q) = log(mean_a exp(omega q_a)) / omega

mm is a softened maximum: the mean for omega -> 0, the maximum for omega -> infinity. Unlike the
maximum it does not prefer values that are too high by chance.

Shapes: B rows, A actions.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from dicore.config import PolicyConfig
from dicore_plugins.functional import by_head, legal
from dicore_plugins.policies import DQNPolicy, q_values
from mellow_dqn.config import MellowDQNConfig

__all__ = ["MellowDQNPolicy", "mellowmax"]


def mellowmax(q: Tensor, omega: float) -> Tensor:
    """Returns the mellowmax of Q values over the actions that are allowed.

    Args:
        q: float32 [B, A]; those of actions that are not allowed are the least of the type.
        omega: At least 0; 0 is the mean.

    Returns:
        float32 [B].
    """
    allowed = q > torch.finfo(q.dtype).min
    count = allowed.sum(1)
    if not omega:
        return torch.where(allowed, q, torch.zeros_like(q)).sum(1) / count
    scaled = torch.where(allowed, omega * q, torch.full_like(q, -math.inf))
    return (torch.logsumexp(scaled, 1) - count.log()) / omega


class MellowDQNPolicy(DQNPolicy):
    """DQN whose target is the mellowmax of the next Q values."""

    config_class: ClassVar[type[PolicyConfig]] = MellowDQNConfig
    _cfg: MellowDQNConfig

    def _target(self, batch: Any) -> Any:
        """Returns y: float32 [B], or a list with one per head."""
        with torch.no_grad():
            next_q = legal(q_values(self._target_model, batch["next_obs"]), batch["next_obs"])
            reward, done, gamma = self._bridged(batch)
            going_on = 1.0 if done is None else 1.0 - done
            omega = self._cfg.learn.omega
            return by_head(lambda q: reward + gamma * going_on * mellowmax(q, omega), next_q)
