"""REDQ: randomized ensembled double Q-learning (Chen et al. 2021, arXiv:2101.05982), over SAC.

V'(s') = min_{e in M} Q'_e(s', a') - alpha log pi(a'|s'), where M is a random subset of the E
networks, drawn for each update; the actor maximizes (1/E) sum_e Q_e(s, a) - alpha log pi(a|s), once
in many updates of the critics. The subset keeps the values from growing, so that each env step can
be learned from twenty times.

DroQ (Hiraoka et al. 2022, arXiv:2110.02034) has two networks with dropout and layer normalisation
in place of ten.

Shapes: B samples, E Q networks.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore_plugins.policies.base import Results
from dicore_plugins.policies.continuous.redq_config import REDQConfig
from dicore_plugins.policies.continuous.sac import SACPolicy


class REDQPolicy(SACPolicy):
    """SAC with targets of random Q networks, and an actor that is updated less often."""

    config_class: ClassVar[type[PolicyConfig]] = REDQConfig
    _cfg: REDQConfig
    draws: ClassVar[tuple[str, ...]] = (*SACPolicy.draws, "_some")

    def _least(self, q: Tensor) -> Tensor:
        wanted = self._cfg.learn.target_critics
        return super()._least(q if wanted is None or wanted >= len(q) else self._some(q, wanted))

    def _some(self, q: Tensor, count: int) -> Tensor:
        """Returns the Q values of random networks, without repetition: float32 [count, B]."""
        return q[torch.from_numpy(self._noise.choice(len(q), count, replace=False)).to(q.device)]

    def _actor_value(self, q: Tensor) -> Tensor:
        return q.mean(0) if self._cfg.learn.actor_value == "mean" else q.amin(0)

    def _update_actor(self, batch: Batch) -> Results:
        if self._update_count % self._cfg.learn.actor_update_freq == 0:
            return super()._update_actor(batch)
        if self.has_target:
            self._move_target("critic")
        return dict.fromkeys(("actor_loss", "alpha", "entropy"))
