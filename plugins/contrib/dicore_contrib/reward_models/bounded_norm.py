"""Rewards in units of their discounted returns, which are bounded (Kim et al. 2026).

arXiv:2604.04539. Each environment has a return G_t = r_t + gamma G_{t-1}, which begins at 0 in each
episode. Rewards are divided by

    max(sqrt(var G + epsilon), max |G| / max_return)

of all steps so far, so that the atoms of a distribution of returns can have fixed values.

Shapes: B rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dicore.config import as_config
from dicore_contrib.reward_models.bounded_norm_config import BoundedRewardNormConfig
from dicore_plugins.models import RunningNorm
from dicore_plugins.reward_models import ReturnScale, RewardNorm

__all__ = ["BoundedRewardNorm"]


class _Range(RunningNorm):
    """Running statistics that know the largest absolute value, too."""

    largest: Tensor

    def __init__(self) -> None:
        super().__init__(1)
        self.register_buffer("largest", torch.zeros((), dtype=torch.float64))

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Adds rows [B, 1]; rows that are not finite change nothing."""
        super().update(x)
        largest = x.abs().max()
        self.largest.copy_(torch.where(largest.isfinite(), largest, 0.0).maximum(self.largest))


class _Scale(ReturnScale):
    """What rewards are divided by."""

    def __init__(self, discount: float, epsilon: float, max_return: float) -> None:
        self._max_return = max_return
        super().__init__(discount, epsilon)
        self._norm = _Range()

    def _read(self) -> None:
        super()._read()
        largest = getattr(self._norm, "largest", 0.0)
        self.value = max(self.value, float(largest) / self._max_return)


class BoundedRewardNorm(RewardNorm):
    """Divides rewards by what makes returns small; implements `IRewardModel`.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
    """

    config_class = BoundedRewardNormConfig

    def __init__(self, cfg: BoundedRewardNormConfig | Mapping[str, Any] | None = None) -> None:
        cfg = as_config(cfg, BoundedRewardNormConfig)
        super().__init__(cfg)
        self._scale = _Scale(cfg.reward_discount, cfg.epsilon, cfg.max_return)
