"""XQL: extreme Q-learning (Garg et al. 2023, arXiv:2301.02328), over IQL.

V(s) = beta log E_{a of the data} exp(Q'(s, a) / beta), the soft maximum over the recorded actions,
is learned by Gumbel regression instead of an expectile.

Shapes: B samples.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore_plugins.functional.offline import gumbel_error
from dicore_plugins.policies.offline.iql import IQLPolicy
from dicore_plugins.policies.offline.iql_config import XQLConfig


class XQLPolicy(IQLPolicy):
    """IQL whose values are soft maxima of the recorded actions."""

    config_class: ClassVar[type[PolicyConfig]] = XQLConfig
    _cfg: XQLConfig  # type: ignore[assignment] # has no expectile

    def _value_loss(self, value: Tensor, q: Tensor) -> Tensor:
        return gumbel_error(value, q, self._cfg.learn.beta, self._cfg.learn.max_gap)
