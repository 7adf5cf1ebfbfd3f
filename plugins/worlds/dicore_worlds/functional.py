"""Functions of DreamerV3 (Hafner et al. 2023, arXiv:2301.04104); symlog is in `dicore_plugins`.

Shapes: T steps, B sequences, G categorical variables, C classes of each, N bins, `...` any.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dicore_plugins.functional import inv_symlog

__all__ = [
    "categorical_kl", "categorical_sample", "exponential_bins", "free_bits_kl", "gaussian_entropy",
    "gaussian_log_prob", "imagined_return", "return_range", "two_hot_mean", "two_hot_nll", "unimix",
]  # fmt: skip


def exponential_bins(count: int = 255, largest: float = 20.0) -> Tensor:
    """Returns bins of numbers of any size: symexp of equal steps from -largest to largest.

    Args:
        count: N, odd, so that 0 is a bin.
        largest: Of symlog; 20 is 4.8e8.

    Returns:
        float32 [N], rising, and equal to its own negative backwards.
    """
    half = inv_symlog(torch.linspace(0.0, largest, count // 2 + 1, dtype=torch.float64)).float()
    return torch.cat([-half[1:].flip(0), half])


def two_hot_nll(logit: Tensor, target: Tensor, bins: Tensor) -> Tensor:
    """Computes the cross-entropy of bins against two-hot targets (equation 10) of each number.

    The two bins around y have the probabilities that make y their mean; numbers beyond the last
    bins count as these.

    Args:
        logit: float32 [..., N], with their graph.
        target: float32 [...]; y.
        bins: float32 [N], rising.

    Returns:
        float32 [...].
    """
    inside = target.detach().clamp(bins[0], bins[-1])
    above = torch.searchsorted(bins, inside.nan_to_num(0.0).contiguous()).clamp(1, len(bins) - 1)
    low, high = bins[above - 1], bins[above]
    share = (inside - low) / (high - low)
    around = logit.gather(-1, torch.stack([above - 1, above], -1))
    return logit.logsumexp(-1) - torch.lerp(around[..., 0], around[..., 1], share)


def two_hot_mean(logit: Tensor, bins: Tensor) -> Tensor:
    """Computes the mean of bins that are symmetric about 0.

    A bin and its negative are added first, so that equal probabilities give exactly 0 although the
    bins are large.

    Args:
        logit: float32 [..., N]; N is odd.
        bins: float32 [N]; `exponential_bins`.

    Returns:
        float32 [...].
    """
    share, half = logit.softmax(-1), len(bins) // 2
    return ((share[..., half + 1 :] - share[..., :half].flip(-1)) * bins[half + 1 :]).sum(-1)


def unimix(logit: Tensor, share: float = 0.01) -> Tensor:
    """Mixes a share of the uniform distribution into categorical ones: probabilities [..., C].

    No class then is impossible, and divergences stay finite.

    Args:
        logit: float32 [..., C].
        share: Of the uniform distribution.
    """
    return torch.add(share / logit.shape[-1], logit.softmax(-1), alpha=1 - share)


def categorical_sample(probability: Tensor, uniform: Tensor | None) -> Tensor:
    """Draws classes, one-hot; gradients are those of the probabilities (straight-through).

    Args:
        probability: float32 [..., C].
        uniform: float32 [...] in [0, 1), one per variable; None: the most probable classes.

    Returns:
        float32 [..., C].
    """
    known = probability.detach()
    if uniform is None:
        index = known.argmax(-1)
    else:
        index = (known.cumsum(-1)[..., :-1] <= uniform.unsqueeze(-1)).sum(-1)
    drawn = torch.eye(known.shape[-1], dtype=known.dtype, device=known.device)[index]
    return drawn + (probability - known) if probability.requires_grad else drawn


def categorical_kl(left: Tensor, right: Tensor) -> Tensor:
    """Computes the divergences KL(left || right) of G independent variables, summed: [...].

    Args:
        left: float32 [..., G, C]; log-probabilities.
        right: The same form.
    """
    return (left.exp() * (left - right)).sum((-1, -2))


def free_bits_kl(posterior: Tensor, prior: Tensor, free: float = 1.0) -> tuple[Tensor, Tensor]:
    """Computes the losses that bring prior and posterior together (equation 5).

        dynamics = max(free, KL(sg(posterior) || prior))
        representation = max(free, KL(posterior || sg(prior)))

    Args:
        posterior: float32 [..., G, C]; log-probabilities.
        prior: The same form.
        free: Nats below which there is no gradient.

    Returns:
        Both losses, float32 [...].
    """
    dynamics = categorical_kl(posterior.detach(), prior)
    representation = categorical_kl(posterior, prior.detach())
    return dynamics.clamp(min=free), representation.clamp(min=free)


def imagined_return(reward: Tensor, value: Tensor, discount: Tensor, td_lambda: float) -> Tensor:
    """Computes lambda-returns of imagined steps, whose episodes end with some probability.

        R_t = r_t + d_t ((1 - lambda) v_t + lambda R_{t+1}),  R_T = v_{T-1}

    Args:
        reward: float32 [T, ...]; of each step.
        value: float32 [T, ...]; of the state after each step.
        discount: float32 [T, ...]; gamma times the probability that the episode goes on.
        td_lambda: lambda.

    Returns:
        float32 [T, ...], of the states before the steps.
    """
    base = reward + discount * (1 - td_lambda) * value
    after, found = value[-1], list[Tensor]()
    for step in reversed(range(len(reward))):
        after = base[step] + discount[step] * td_lambda * after
        found.append(after)
    return torch.stack(found[::-1])


def return_range(returns: Tensor) -> Tensor:
    """Returns the distance of the 5 % and the 95 % quantile of returns, a scalar."""
    ends = torch.quantile(returns.flatten(), returns.new_tensor([0.05, 0.95]))
    return ends[1] - ends[0]


def gaussian_entropy(std: Tensor) -> Tensor:
    """Computes the entropy of independent Gaussians: [...] of [..., A]."""
    return (std.log() + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)


def gaussian_log_prob(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Computes the log-density of independent Gaussians: [...] of [..., A]."""
    terms = ((x - mean) / std).square() / 2 + std.log() + 0.5 * math.log(2 * math.pi)
    return -terms.sum(-1)
