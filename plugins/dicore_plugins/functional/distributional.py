"""Losses of distributional and of Munchausen Q-learning, as pure functions.

Shapes: B rows, A actions, N atoms or quantiles, M target quantiles.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = [
    "c51_loss", "c51_target", "munchausen_bonus", "qrdqn_loss", "quantile_target", "soft_target",
]  # fmt: skip


def _row(value: Tensor | float) -> Tensor | float:
    return value.unsqueeze(1) if isinstance(value, Tensor) else value


def quantile_target(
    next_value: Tensor, reward: Tensor, done: Tensor | None, value_gamma: Tensor | float
) -> Tensor:
    """Computes reward + gamma_k (1 - done) next_value for each atom or quantile.

    Args:
        next_value: float32 [B, M], or [M] for atoms that all rows share.
        reward: float32 [B]; discounted sum of the bridged rewards.
        done: float32 [B]; 1 where the bootstrap state is terminal. None bootstraps everywhere.
        value_gamma: gamma^k, one number or float32 [B].

    Returns:
        float32 [B, M].
    """
    boot = _row(value_gamma)
    if done is not None:
        boot = boot * (1.0 - done.unsqueeze(1))
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
    projected = torch.zeros_like(next_probability)
    projected.scatter_add_(1, below, next_probability * (1 - share))
    return projected.scatter_add_(1, above, next_probability * share)


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
    target = target.detach()
    entropy = -(target * torch.log_softmax(logit, 1)).sum(1)
    own = -torch.special.entr(target).sum(1)
    divergence = (entropy.detach() + own).clamp_(min=0.0)
    return (entropy if weight is None else entropy * weight).mean(), divergence


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
        fraction: float32 [N] or [B, N]; the fraction, 0 to 1, that each quantile estimates.
        weight: float32 [B]; factors of the losses of the rows (importance sampling).
        kappa: Error at which the loss turns linear; 0: the quantile loss without smoothing.

    Returns:
        The mean over rows of the sum over N of the mean over M, a scalar with its graph, and the
        absolute difference of the two means, float32 [B], detached.
    """
    target = target.detach()
    error = target.unsqueeze(1) - quantile.unsqueeze(2)
    size = error.abs()
    if kappa > 0:
        size = torch.where(size <= kappa, 0.5 * size * size, kappa * (size - 0.5 * kappa)) / kappa
    side = (fraction.unsqueeze(-1) - (error.detach() < 0).to(error.dtype)).abs()
    loss = (side * size).mean(2).sum(1)
    td_error = (target.mean(1) - quantile.detach().mean(1)).abs()
    return (loss if weight is None else loss * weight).mean(), td_error


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
