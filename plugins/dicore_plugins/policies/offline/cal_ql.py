"""Cal-QL: calibrated Q-learning (Nakamoto et al. 2023, arXiv:2303.05479), over CQL.

In the conservative term, values of actions of the policy are max(Q(s, a), V^mu(s)): they are not
lowered below the return that the policy mu of the data had from the state, so that the values keep
their scale and fine-tuning does not begin by unlearning. V^mu(s) is the recorded discounted return;
where an episode was cut, its mean reward goes on for ever if that is negative, as the authors let
the costs of episodes without success go on.

Shapes: B samples, E Q networks, M actions of each kind.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore_plugins.policies.offline.cql import CQLPolicy
from dicore_plugins.policies.offline.cql_config import CalQLConfig


class CalQLPolicy(CQLPolicy):
    """CQL with recorded returns as lower bounds; samples without `discounted_return` have none."""

    config_class: ClassVar[type[PolicyConfig]] = CalQLConfig
    _cfg: CalQLConfig

    def _sampled(self, batch: Batch) -> tuple[Tensor, Tensor]:
        q, log_density = super()._sampled(batch)
        if "discounted_return" not in batch:
            return q, log_density
        anywhere, chosen = q.tensor_split([self._cfg.learn.n_action], -1)
        bound = batch["discounted_return"].view(1, -1, 1)
        return torch.cat((anywhere, chosen.maximum(bound)), -1), log_density
