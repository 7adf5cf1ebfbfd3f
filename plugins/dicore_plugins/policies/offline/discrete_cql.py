"""CQL for discrete actions (Kumar et al. 2020, arXiv:2006.04779), over double DQN.

The loss is that of DQN plus alpha (log sum_a exp Q(s, a) - Q(s, a_data)).

Shapes: B samples, A actions, H heads.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Tree
from dicore_plugins.functional.offline import discrete_cql_error
from dicore_plugins.functional.td import legal
from dicore_plugins.policies.offline.cql_config import DiscreteCQLConfig
from dicore_plugins.policies.value.dqn import DQNPolicy


class DiscreteCQLPolicy(DQNPolicy):
    """DQN with conservative values, from a dataset."""

    config_class: ClassVar[type[PolicyConfig]] = DiscreteCQLConfig
    _cfg: DiscreteCQLConfig

    def _regulariser(self, q: Tree, batch: Batch, weight: Tensor | None) -> Tensor:
        index = self._action_index(batch["action"]).reshape(len(batch), -1)
        values = legal(q, batch["obs"])
        values = [values] if isinstance(values, Tensor) else values
        losses = [
            discrete_cql_error(head, taken, weight)
            for head, taken in zip(values, index.unbind(1), strict=True)
        ]
        loss: Tensor = torch.stack(losses).mean() * self._cfg.learn.conservative_weight
        return loss
