"""Losses of learned models of an environment.

Shapes: E networks, B samples, D predicted numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dicore_plugins.functional.losses import check_shapes, in_float32, weighted_mean

__all__ = ["gaussian_nll_error", "soft_clamp"]


@in_float32
def gaussian_nll_error(
    mean: Tensor, log_var: Tensor, target: Tensor, weight: Tensor | None = None
) -> Tensor:
    """Computes (mean - y)^2 / var + log var: mean over numbers and samples, sum over networks.

    Twice the negative log-likelihood of independent Gaussians without its constant (Chua et al.
    2018, arXiv:1805.12114, equation 1).

    Args:
        mean: float32 [E, B, D]; with its graph.
        log_var: float32 [E, B, D]; with its graph.
        target: float32 [E, B, D]; y.
        weight: float32 [B]; factors of the losses of the samples.

    Returns:
        A scalar with its graph.

    Raises:
        SchemaError: the shapes differ.
    """
    check_shapes(mean=mean, log_var=log_var, target=target)
    terms = (mean - target).square() * (-log_var).exp() + log_var
    return weighted_mean(terms.mean(-1).sum(0), weight)


def soft_clamp(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Bounds numbers smoothly: high - softplus(high - x), and the same from below.

    Chua et al. 2018, arXiv:1805.12114, appendix A.1: gradients do not vanish at the bounds, which
    may be learned.

    Args:
        x: Any shape.
        low: Lower bound, to be broadcast.
        high: Upper bound, to be broadcast.

    Returns:
        The shape of x, with its graph.
    """
    softplus = torch.nn.functional.softplus
    x = high - softplus(high - x)
    return low + softplus(x - low)
