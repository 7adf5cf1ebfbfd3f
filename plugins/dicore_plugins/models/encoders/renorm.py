"""Batch renormalisation (Ioffe 2017, arXiv:1702.03275), for one network or an ensemble.

Shapes: E networks, B rows, F features.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dicore_plugins.models.encoders.mlp import Array

__all__ = ["BatchRenorm"]

_EPS, _MOMENTUM = 1e-3, 0.01
_R_MAX, _D_MAX = 3.0, 5.0


class _Normal(torch.autograd.Function):
    """y = ((x - mean) / deviation * r + d) * scale + shift, in a fifth of autograd's time.

    mean and deviation are those of x [E, B, F], and the gradient flows through them; r and d are
    constants. Besides x, all are [E, 1, F].
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, shift: Tensor, *given: Tensor) -> Tensor:
        mean, inverse, r, d = given  # inverse: 1 / deviation
        slope = inverse * r * scale
        ctx.save_for_backward(x, scale, *given)
        offset = torch.addcmul(torch.addcmul(shift, d, scale), mean, slope, value=-1)
        return torch.addcmul(offset, x, slope)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = gradients
        x, scale, mean, inverse, r, d = ctx.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives
            mean, var = _moments(x)
            inverse = torch.rsqrt(var + _EPS)
        count = x.shape[1]
        total = grad.sum(1, keepdim=True)
        moment = ((grad * x).sum(1, keepdim=True) - mean * total) * inverse
        slope = inverse * r * scale
        of_x = slope * moment * inverse / (1 - count)
        offset = -(slope * total / count) - of_x * mean
        down = torch.addcmul(torch.addcmul(offset, grad, slope), x, of_x)
        return down, moment * r + d * total, total, None, None, None, None


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns mean and variance of x [E, B, F]: [E, 1, F] each, ten times as fast as var_mean."""
    mean = x.mean(1, keepdim=True)
    return mean, (x - mean).square_().sum(1, keepdim=True) / (x.shape[1] - 1)


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
        with torch.no_grad():
            mean, var = _moments(x)
            r, d = self._correction(mean, var)
        columns = x, scale, shift, mean, torch.rsqrt(var + _EPS), r, d
        y: Tensor = _Normal.apply(*columns)  # type: ignore[no-untyped-call] # torch leaves it untyped
        return y

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
