"""Transformations of values whose scale is large or unknown, and losses by two-hot bins.

The n-step target with value rescaling is
`value_transform(dqn_td_target(value_inv_transform(next_q), reward, done, value_gamma))`.

Shapes: B rows, N bins.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dicore_plugins.functional.losses import check_shapes, in_float32, weighted_mean

__all__ = [
    "inv_symlog", "symlog", "two_hot", "two_hot_loss", "two_hot_value", "value_inv_transform",
    "value_transform",
]  # fmt: skip


def value_transform(x: Tensor, eps: float = 1e-2) -> Tensor:
    """Computes `h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x`.

    Pohlen et al. 2018, arXiv:1805.11593.

    Args:
        x: Any shape.
        eps: Slope that keeps the inverse Lipschitz continuous, >= 0.
    """
    # sqrt(|x| + 1) - 1 without cancellation; x instead of sign(x) |x|: a gradient at 0, too
    return x / ((x.abs() + 1).sqrt() + 1) + eps * x


def value_inv_transform(x: Tensor, eps: float = 1e-2) -> Tensor:
    """Computes the inverse of `value_transform` (Pohlen et al. 2018, proposition A.2).

    With `u = sqrt(|y| + 1) - 1`, `|x| = eps u^2 + (1 + 2 eps) u`, of which u is the positive root.

    Args:
        x: Any shape; values of h.
        eps: That of `value_transform`.
    """
    half = 1 + 2 * eps
    root = 2 * x / (half + (half * half + 4 * eps * x.abs()).sqrt())
    return root * (root.abs() + 2)


def symlog(x: Tensor) -> Tensor:
    """Computes `sign(x) log(1 + |x|)` (Hafner et al. 2023, arXiv:2301.04104, equation 1)."""
    return torch.where(x >= 0, x.clamp(min=0).log1p(), -(-x).clamp(min=0).log1p())


def inv_symlog(x: Tensor) -> Tensor:
    """Computes `sign(x) (exp(|x|) - 1)`, the inverse of `symlog`."""
    return torch.where(x >= 0, x.clamp(min=0).expm1(), -(-x).clamp(min=0).expm1())


def two_hot(value: Tensor, support: Tensor) -> Tensor:
    """Encodes numbers as probabilities of the two nearest bins, whose mean they are.

    Bellemare et al. 2017 (arXiv:1707.06887) for one atom; Hafner et al. 2023, equation 9.

    Args:
        value: float32 [B]; values outside of the support are moved to its nearest end.
        support: float32 [N]; the bins, rising, N >= 2.

    Returns:
        float32 [B, N]; rows sum to 1. NaN stays NaN.
    """
    support = support.to(value.dtype)
    inside = value.clamp(support[0], support[-1])
    known = inside.nan_to_num(0.0)
    above = torch.searchsorted(support, known.contiguous()).clamp(1, len(support) - 1)
    low, high = support[above - 1], support[above]
    share = (inside - low) / (high - low)
    out = value.new_zeros(len(value), len(support))
    out.scatter_(1, (above - 1).unsqueeze(1), (1 - share).unsqueeze(1))
    return out.scatter_(1, above.unsqueeze(1), share.unsqueeze(1))


def two_hot_value(logit: Tensor, support: Tensor) -> Tensor:
    """Computes the mean of the bins: sum_i softmax(logit)_i support_i.

    Args:
        logit: [B, N].
        support: float32 [N].

    Returns:
        float32 [B], with the graph of the logits.
    """
    return (torch.softmax(logit, -1) * support).sum(-1)


@in_float32
def two_hot_loss(
    logit: Tensor, target: Tensor, support: Tensor, weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Computes the cross-entropy of bins against two-hot targets (Hafner et al. 2023, equation 10).

    For symlog two-hot regression, pass `symlog(y)`; `inv_symlog(two_hot_value(...))` predicts y.

    Args:
        logit: [B, N], with their graph.
        target: float32 [B].
        support: float32 [N]; the bins, rising.
        weight: float32 [B]; factors of the losses of the rows (importance sampling).

    Returns:
        The mean loss, a scalar with its graph, and the absolute difference of the predicted mean
        and the target, float32 [B], detached.
    """
    target = target.detach()
    check_shapes(logit=logit[:, 0], target=target)
    loss = -(two_hot(target, support) * torch.log_softmax(logit, -1)).sum(-1)
    error = (two_hot_value(logit.detach(), support) - target).abs()
    return weighted_mean(loss, weight), error
