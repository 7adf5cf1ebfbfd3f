"""Losses of distributional and of Munchausen Q-learning, as pure functions.

Losses of half precision inputs are computed in float32.

Shapes: B rows, A actions, N atoms or quantiles, M target quantiles, E networks of an ensemble.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dicore.errors import SchemaError, UsageError
from dicore_plugins.functional.losses import check_shapes, in_float32, weighted_mean

__all__ = [
    "c51_loss", "c51_target", "fqf_fraction_loss", "fqf_value", "munchausen_bonus", "qrdqn_loss",
    "quantile_target", "soft_target", "truncated_quantiles",
]  # fmt: skip


def _row(value: Tensor | float) -> Tensor | float:
    return value.unsqueeze(1) if isinstance(value, Tensor) and value.dim() else value


def quantile_target(
    next_value: Tensor, reward: Tensor, done: Tensor | None, value_gamma: Tensor | float
) -> Tensor:
    """Computes reward + gamma_k (1 - done) next_value for each atom or quantile.

    Args:
        next_value: float32 [B, M], or [M] for atoms that all rows share.
        reward: float32 [B]; discounted sum of the bridged rewards.
        done: float32 or bool [B]; 1 where the bootstrap state is terminal. None bootstraps
            everywhere.
        value_gamma: gamma^k, one number or float32 [B].

    Returns:
        float32 [B, M].

    Raises:
        SchemaError: the rewards are not [B].
    """
    if reward.dim() != 1:
        raise SchemaError(f"rewards must be [B], got {list(reward.shape)}")
    boot = _row(value_gamma)
    if done is not None:
        boot = boot * (1.0 - done.to(reward.dtype).unsqueeze(1))
    return reward.unsqueeze(1) + boot * next_value


def c51_target(
    next_probability: Tensor,
    reward: Tensor,
    done: Tensor | None,
    value_gamma: Tensor | float,
    support: Tensor,
) -> Tensor:
    """Projects the distribution of r + gamma z to the support (Bellemare et al. 2017, algorithm 1).

    Args:
        next_probability: float32 [B, N]; of the bootstrap action, by the target network.
        reward: float32 [B].
        done: float32 [B] or None; see `quantile_target`.
        value_gamma: gamma^k; see `quantile_target`.
        support: float32 [N]; values of the atoms, equally spaced, rising.

    Returns:
        Probabilities float32 [B, N].
    """
    count = support.numel()
    low, high = support[0], support[-1]
    moved = quantile_target(support, reward, done, value_gamma).clamp(low, high)
    place = ((moved - low) * ((count - 1) / (high - low))).clamp(0, count - 1)
    lower = place.floor()
    share = place - lower
    below = lower.nan_to_num(0.0).long()  # NaN stays in `share`
    above = (below + 1).clamp(max=count - 1)
    left = next_probability * (1 - share)
    projected = torch.zeros_like(left).scatter_add_(1, below, left)
    return projected.scatter_add_(1, above, next_probability * share)


@in_float32
def c51_loss(logit: Tensor, target: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Computes the cross-entropy of a distribution against its target.

    Args:
        logit: [B, N]; of the actions taken, with their graph.
        target: float32 [B, N]; probabilities by `c51_target`.
        weight: float32 [B]; factors of the losses of the rows (importance sampling).

    Returns:
        The mean loss, a scalar with its graph, and the Kullback-Leibler divergence of each row,
        float32 [B], detached and >= 0: the priority of Rainbow (Hessel et al. 2018).
    """
    check_shapes(logit=logit, target=target)
    target = target.detach()
    entropy = -(target * torch.log_softmax(logit, 1)).sum(1)
    own = -torch.special.entr(target).sum(1)
    divergence = (entropy.detach() + own).clamp_(min=0.0)
    return weighted_mean(entropy, weight), divergence


class _QuantileHuber(torch.autograd.Function):
    """Quantile Huber losses [B, N], means over M targets, in a tenth of autograd's time.

    The slope of |tau - 1[error < 0]| * huber(error) / kappa is tau * c for c > 0 and (1 - tau) * c
    for c < 0, where c is the error divided by kappa and clamped to [-1, 1]; the loss is the slope
    times (error - kappa * c / 2). For second derivatives, the slope is computed again with a graph.
    """

    @staticmethod
    def forward(
        ctx: Any, quantile: Tensor, target: Tensor, fraction: Tensor, kappa: float
    ) -> Tensor:
        error = target.unsqueeze(1) - quantile.unsqueeze(2)
        slope = error.clamp(-kappa, kappa).div_(kappa) if kappa > 0 else error.sign()
        error.add_(slope, alpha=-0.5 * kappa)
        tau = fraction.unsqueeze(-1)
        below = slope.clamp_max(0.0).mul_(1 - 2 * tau)
        slope.mul_(tau).add_(below)
        ctx.kappa = kappa
        ctx.save_for_backward(quantile, target, tau, slope.mean(2))
        return error.mul_(slope).mean(2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        quantile, target, tau, slope = ctx.saved_tensors
        if torch.is_grad_enabled() and ctx.kappa > 0:
            error = target.unsqueeze(1) - quantile.unsqueeze(2)
            clamped = error.clamp(-ctx.kappa, ctx.kappa) / ctx.kappa
            slope = torch.where(clamped < 0, (1 - tau) * clamped, tau * clamped).mean(2)
        return -slope * gradients[0], None, None, None


@in_float32
def qrdqn_loss(
    quantile: Tensor,
    target: Tensor,
    fraction: Tensor,
    weight: Tensor | None = None,
    kappa: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Computes the quantile Huber loss (Dabney et al. 2018, arXiv:1710.10044, equation 10).

    Args:
        quantile: [B, N]; of the actions taken, with their graph.
        target: float32 [B, M]; by `quantile_target`.
        fraction: float32 [N] or [B, N]; the fraction, 0 to 1, that each quantile estimates; it
            gets no gradient.
        weight: float32 [B]; factors of the losses of the rows (importance sampling).
        kappa: Error at which the loss turns linear; 0: the quantile loss without smoothing.

    Returns:
        The mean over rows of the sum over N of the mean over M, a scalar with its graph, and the
        absolute difference of the two means, float32 [B], detached.

    Raises:
        SchemaError: the shapes do not fit.
    """
    if target.dim() != 2 or len(target) != len(quantile):
        raise SchemaError(
            f"quantiles must be [B, N] and targets [B, M]; got {list(quantile.shape)} and"
            f" {list(target.shape)}"
        )
    target = target.detach()
    columns = quantile, target, fraction.detach(), kappa
    loss: Tensor = _QuantileHuber.apply(*columns).sum(1)  # type: ignore[no-untyped-call] # torch leaves it untyped
    td_error = (target.mean(1) - quantile.detach().mean(1)).abs()
    return weighted_mean(loss, weight), td_error


@in_float32
def fqf_fraction_loss(
    boundary: Tensor, at_boundary: Tensor, at_middle: Tensor, weight: Tensor | None = None
) -> Tensor:
    """Computes the loss that moves the fractions of FQF to their best places.

    FQF (Yang et al. 2019, arXiv:1911.02140) approximates the quantile function F by N steps between
    the fractions tau_0 = 0 < tau_1 < ... < tau_N = 1. The derivative of the 1-Wasserstein error
    (proposition 1) by tau_i is

        |F(tau_i) - F(m_{i-1})| - |F(tau_i) - F(m_i)|,  m_i = (tau_i + tau_{i+1}) / 2

    This is 2 F(tau_i) - F(m_{i-1}) - F(m_i) if F rises, which networks do not ensure.

    Args:
        boundary: float32 [B, N + 1]; tau, from 0 to 1, with the graph of the fraction network.
        at_boundary: float32 [B, N - 1]; F(tau_i) of the inner fractions, of the actions taken.
        at_middle: float32 [B, N]; F(m_i), of the actions taken.
        weight: float32 [B]; factors of the losses of the rows (importance sampling).

    Returns:
        A scalar whose graph reaches only the fractions: the mean over rows of
        sum_i tau_i (derivative by tau_i).
    """
    check_shapes(boundary=boundary[:, 2:], at_boundary=at_boundary, at_middle=at_middle[:, 1:])
    at_boundary, at_middle = at_boundary.detach(), at_middle.detach()
    slope = (at_boundary - at_middle[:, :-1]).abs() - (at_boundary - at_middle[:, 1:]).abs()
    loss = (slope * boundary[:, 1:-1]).sum(1)
    return weighted_mean(loss, weight)


def fqf_value(boundary: Tensor, at_middle: Tensor) -> Tensor:
    """Computes Q = sum_i (tau_{i+1} - tau_i) F(m_i) (Yang et al. 2019, equation 1).

    Args:
        boundary: float32 [B, N + 1]; tau, from 0 to 1.
        at_middle: float32 [B, A, N] or [B, N]; F(m_i).

    Returns:
        float32 [B, A] or [B].
    """
    width = boundary.diff(dim=1)
    return ((width if at_middle.dim() == 2 else width.unsqueeze(1)) * at_middle).sum(-1)


def truncated_quantiles(quantile: Tensor, drop: int) -> Tensor:
    """Pools the quantiles of E networks and drops the largest (Kuznetsov et al. 2020, TQC).

    arXiv:2005.04269, section 4. The result is the `next_value` of `quantile_target`.

    Args:
        quantile: float32 [E, B, N]; of the next actions, by the target networks.
        drop: Number of quantiles to drop per network; the largest E * drop of all are dropped.

    Returns:
        float32 [B, E * (N - drop)], rising.

    Raises:
        UsageError: `drop` is not in [0, N).
    """
    ensemble, rows, count = quantile.shape
    if not 0 <= drop < count:
        raise UsageError(f"drop must be in [0, {count}), got {drop}")
    pooled = quantile.permute(1, 0, 2).reshape(rows, ensemble * count)
    kept = pooled.sort(1).values[:, : ensemble * (count - drop)]
    return kept.masked_fill(pooled.isnan().any(1, keepdim=True), float("nan"))  # it sorts last


def munchausen_bonus(
    q: Tensor, action: Tensor, temperature: float = 0.03, lowest: float = -1.0
) -> Tensor:
    """Computes [tau log pi(a|s)]_lowest^0 with pi = softmax(Q / tau), which Munchausen DQN adds.

    Vieillard et al. 2020, arXiv:2007.14430, equation 2, without the factor alpha.

    Args:
        q: float32 [B, A]; values by the target network.
        action: int64 [B]; the actions taken.
        temperature: tau.
        lowest: Lower bound.

    Returns:
        float32 [B], from `lowest` to 0.
    """
    log_policy = temperature * torch.log_softmax(q / temperature, 1)
    return log_policy.gather(1, action.unsqueeze(1)).squeeze(1).clamp(min=lowest, max=0.0)


def soft_target(
    next_q: Tensor,
    reward: Tensor,
    done: Tensor | None,
    value_gamma: Tensor | float,
    temperature: float = 0.03,
) -> Tensor:
    """Computes r + gamma_k (1 - done) sum_a pi(a|s') (Q'(s', a) - tau log pi(a|s')).

    pi = softmax(Q' / tau); the value is tau logsumexp(Q' / tau) (Haarnoja et al. 2017,
    arXiv:1702.08165).

    Args:
        next_q: float32 [B, A]; values of the bootstrap state by the target network.
        reward: float32 [B].
        done: float32 [B] or None; see `quantile_target`.
        value_gamma: gamma^k; see `quantile_target`.
        temperature: tau.

    Returns:
        float32 [B].
    """
    value = temperature * torch.logsumexp(next_q / temperature, 1)
    return quantile_target(value.unsqueeze(1), reward, done, value_gamma).squeeze(1)
