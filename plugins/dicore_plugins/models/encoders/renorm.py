"""Batch renormalisation (Ioffe 2017, arXiv:1702.03275), for one network or an ensemble.

Shapes: E networks, B rows, F features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dicore_plugins.models.encoders.mlp import Array

__all__ = ["BatchRenorm"]

_EPS, _MOMENTUM = 1e-3, 0.01
_R_MAX, _D_MAX = 3.0, 5.0


class BatchRenorm(nn.Module):
    """Normalises features over a batch, with learned scale and shift, and keeps running statistics.

    In training mode, a batch is normalised by its own statistics and then corrected towards the
    running ones (equation 5 of the paper), so that training and evaluation mode compute nearly the
    same. The correction is off for the first batches, whose running statistics are not yet known,
    and bounded: the scale in 1/3 to 3, the shift in -5 to 5. Momentum 0.01 and epsilon 0.001 are
    those of Bhatt et al. 2024 (arXiv:1902.05605). In evaluation mode the running statistics are
    used, and not changed.

    Args:
        count: E.
        features: F.
        warm_up: Batches without correction.
    """

    mean: Tensor
    var: Tensor
    steps: Tensor

    def __init__(self, count: int, features: int, warm_up: int = 100_000) -> None:
        super().__init__()
        shape = count, 1, features
        self.warm_up = warm_up
        self.scale, self.shift = nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("var", torch.ones(shape))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        """Normalises float32 [E, B, F].

        Args:
            x: One batch per network.
            frozen: Scale and shift get no gradient; `x` does.
        """
        scale, shift = (self.scale, self.shift) if not frozen else self._detached()
        if not self.training:
            factor = scale * torch.rsqrt(self.var + _EPS)
            return torch.addcmul(torch.addcmul(shift, self.mean, factor, value=-1), x, factor)
        var, mean = torch.var_mean(x, 1, keepdim=True)
        r, d = self._correction(mean, var)
        normal = (x - mean) * (torch.rsqrt(var + _EPS) * r) + d
        return torch.addcmul(shift, normal, scale)

    def _detached(self) -> tuple[Tensor, Tensor]:
        return self.scale.detach(), self.shift.detach()

    @torch.no_grad()
    def _correction(self, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        """Computes r and d of equation 5, and moves the running statistics."""
        deviation = (self.var + _EPS).sqrt()
        r = ((var + _EPS).sqrt() / deviation).clamp(1 / _R_MAX, _R_MAX)
        d = ((mean - self.mean) / deviation).clamp(-_D_MAX, _D_MAX)
        warm = self.steps < self.warm_up
        finite = torch.isfinite(mean + var)  # else the next batches would be NaN, too
        self.mean.lerp_(torch.where(finite, mean, self.mean), _MOMENTUM)
        self.var.lerp_(torch.where(finite, var, self.var), _MOMENTUM)
        self.steps += 1
        return torch.where(warm, 1.0, r), torch.where(warm, 0.0, d)

    def by_numpy(self, x: Array) -> Array:
        """Normalises float32 [B, F] by the running statistics of the first network."""
        mean, var, scale, shift = (
            each[0].detach().numpy() for each in (self.mean, self.var, self.scale, self.shift)
        )
        found: Array = (x - mean) * (scale / (var + _EPS) ** 0.5) + shift
        return found
