"""SQL: soft Q-learning of discrete actions (Haarnoja et al. 2017, arXiv:1702.08165).

    y = r + gamma_k (1 - done) alpha logsumexp(Q'(s', .) / alpha)

The policy is softmax(Q / alpha); evaluations take the greedy action.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore_plugins.functional.distributional import soft_target
from dicore_plugins.functional.td import by_head, legal
from dicore_plugins.policies.value.dqn import DQNPolicy, q_values
from dicore_plugins.policies.value.sql_config import SQLConfig

__all__ = ["SQLPolicy"]


class SQLPolicy(DQNPolicy):
    """DQN with soft targets and Boltzmann exploration at a fixed temperature."""

    config_class: ClassVar[type[PolicyConfig]] = SQLConfig
    _cfg: SQLConfig
    _sampler = "eps_greedy_multinomial_sample"

    def _sampling(self) -> dict[str, float]:
        return {"alpha": 1 / self._cfg.learn.alpha}

    def _target(self, batch: Batch) -> Tensor | list[Tensor]:
        bridged, alpha = self._bridged(batch), self._cfg.learn.alpha
        with torch.no_grad():
            after = legal(q_values(self._target_model, batch["next_obs"]), batch["next_obs"])
            target: Tensor | list[Tensor] = by_head(
                lambda q: soft_target(q, *bridged, alpha), after
            )
        return target
