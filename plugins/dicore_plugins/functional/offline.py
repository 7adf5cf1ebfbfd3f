"""Losses of learning from a data set that other policies collected.

A Q network cannot be corrected on actions that the data lacks. The losses here keep the policy near
the actions of the data (TD3+BC, AWAC, IQL), or the values of other actions low (CQL, EDAC).
Losses are means over the samples. Losses of half precision inputs are computed in float32.

Shapes: B samples, A actions or dimensions of an action, M sampled actions per state, E networks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dicore_plugins.functional.losses import check_shapes, in_float32, weighted_mean

__all__ = [
    "advantage_weight", "awr_error", "cql_error", "discrete_cql_error", "diversity_error",
    "expectile_error", "gumbel_error", "rebrac_error", "soft_minimum", "td3_bc_error",
]  # fmt: skip


@in_float32
def td3_bc_error(
    q: Tensor, action: Tensor, shown: Tensor, alpha: float = 2.5, weight: Tensor | None = None
) -> Tensor:
    """Computes the loss of the actor, -lambda Q(s, pi(s)) + (pi(s) - a)^2, of TD3+BC.

    Fujimoto and Gu 2021, arXiv:2106.06860, equation 5; lambda = alpha / mean(abs(Q)), which makes
    the loss independent of the scale of the rewards.

    Args:
        q: float32 [B]; Q(s, pi(s)), with its graph.
        action: float32 [B, A]; pi(s), with its graph.
        shown: float32 [B, A]; the actions of the data.
        alpha: Weight of the Q values; 0: behavioural cloning.
        weight: float32 [B]; factors of the losses of the samples.

    Returns:
        A scalar with its graph.

    Raises:
        SchemaError: the shapes of the actions differ.
    """
    check_shapes(action=action, shown=shown)
    scale = alpha / q.detach().abs().mean().clamp(min=1e-8)
    return weighted_mean((action - shown).square().mean(1) - scale * q, weight)


@in_float32
def rebrac_error(
    q: Tensor, action: Tensor, shown: Tensor, penalty: float, weight: Tensor | None = None
) -> Tensor:
    """Computes the loss of the actor, beta (pi(s) - a)^2 - Q(s, pi(s)) / mean(abs(Q)), of ReBRAC.

    Tarasov et al. 2023, arXiv:2305.09836, equation 5, with the scale of TD3+BC.

    Args:
        q: float32 [B]; Q(s, pi(s)), with its graph.
        action: float32 [B, A]; pi(s), with its graph.
        shown: float32 [B, A]; the actions of the data.
        penalty: beta; see `td3_bc_error`, which takes means over A and divides by beta.
        weight: float32 [B]; factors of the losses of the samples.

    Returns:
        A scalar with its graph.
    """
    scale = q.detach().abs().mean().clamp(min=1e-8)
    return weighted_mean(penalty * (action - shown).square().sum(1) - q / scale, weight)


@in_float32
def cql_error(
    q: Tensor, sampled: Tensor, log_density: Tensor, weight: Tensor | None = None
) -> Tensor:
    """Computes log sum_a exp Q(s, a) - Q(s, a_data) of continuous actions, summed over networks.

    Kumar et al. 2020, arXiv:2006.04779, equation 4 and appendix F: the integral over actions is
    estimated from sampled ones, weighted by 1 / their density.

    Args:
        q: float32 [E, B]; of the actions of the data, with their graph.
        sampled: float32 [E, B, M]; of the sampled actions, with their graph.
        log_density: float32 [B, M]; log-density by which each action was sampled.
        weight: float32 [B]; factors of the losses of the samples.

    Returns:
        A scalar with its graph.
    """
    count = torch.log(torch.tensor(float(sampled.shape[-1]), device=q.device))
    soft = torch.logsumexp(sampled - log_density, -1) - count
    return weighted_mean((soft - q).sum(0), weight)


@in_float32
def discrete_cql_error(q: Tensor, action: Tensor, weight: Tensor | None = None) -> Tensor:
    """Computes log sum_a exp Q(s, a) - Q(s, a_data) of discrete actions.

    Kumar et al. 2020, arXiv:2006.04779, equation 4.

    Args:
        q: float32 [B, A]; with its graph; about -1e8 where an action is masked.
        action: int64 [B]; the actions of the data.
        weight: float32 [B]; factors of the losses of the samples.

    Returns:
        A scalar with its graph, not negative.
    """
    taken = q.gather(1, action.unsqueeze(1)).squeeze(1)
    return weighted_mean(torch.logsumexp(q, 1) - taken, weight)


@in_float32
def expectile_error(
    value: Tensor, target: Tensor, expectile: float = 0.7, weight: Tensor | None = None
) -> Tensor:
    """Computes abs(tau - 1(u < 0)) u^2 with u = target - value, which an expectile minimizes.

    Kostrikov et al. 2021, arXiv:2110.06169, equation 5: above 0.5, V(s) learns to be nearer to the
    best Q(s, a) of the data than to their mean.

    Args:
        value: float32 [B]; V(s), with its graph.
        target: float32 [B]; Q(s, a) of the data.
        expectile: tau, between 0 and 1; 0.5: half of the squared error.
        weight: float32 [B]; factors of the losses of the samples.

    Returns:
        A scalar with its graph.

    Raises:
        SchemaError: the shapes differ.
    """
    check_shapes(value=value, target=target)
    error = target.detach() - value
    factor = torch.where(error < 0, 1 - expectile, expectile)
    return weighted_mean(factor * error.square(), weight)


@in_float32
def gumbel_error(
    value: Tensor,
    target: Tensor,
    beta: float = 1.0,
    limit: float = 7.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Computes exp(z) - z - 1 with z = (target - value) / beta, which a soft maximum minimizes.

    Garg et al. 2023, arXiv:2301.02328, equation 9: V(s) = beta log E exp(Q(s, a) / beta).

    Args:
        value: float32 [B]; V(s), with its graph.
        target: float32 [B]; Q(s, a) of the data.
        beta: Temperature of the maximum.
        limit: Largest z.
        weight: float32 [B]; factors of the losses of the samples.

    Returns:
        A scalar with its graph. As in the paper's code, it is divided by exp(max z) if that is
        above exp(-1), so that gradients stay finite.

    Raises:
        SchemaError: the shapes differ.
    """
    check_shapes(value=value, target=target)
    z = ((target.detach() - value) / beta).clamp(max=limit)
    top = z.detach().amax().clamp(min=-1.0)
    return weighted_mean((z - top).exp() - (z + 1) * (-top).exp(), weight)


def advantage_weight(advantage: Tensor, temperature: float, limit: float = 100.0) -> Tensor:
    """Computes min(exp(A / lambda), limit), the weight of an action that the policy imitates.

    Peng et al. 2019 (arXiv:1910.00177, equation 12), Nair et al. 2020 (AWAC), Kostrikov et al. 2021
    (IQL; lambda = 1 / beta).

    Args:
        advantage: float32 [B]; Q(s, a) - V(s).
        temperature: lambda; near 0: only the best actions count; large: behavioural cloning.
        limit: Largest weight.

    Returns:
        float32 [B], without graph.
    """
    return (advantage.detach() / temperature).exp().clamp(max=limit)


@in_float32
def awr_error(log_prob: Tensor, advantage_weights: Tensor) -> Tensor:
    """Computes -w log pi(a|s), the loss of a policy that imitates actions by their weights.

    Args:
        log_prob: float32 [B]; log pi(a|s) of the actions of the data, with its graph.
        advantage_weights: float32 [B]; see `advantage_weight`.

    Returns:
        A scalar with its graph.

    Raises:
        SchemaError: the shapes differ.
    """
    check_shapes(log_prob=log_prob, advantage_weights=advantage_weights)
    return -weighted_mean(log_prob, advantage_weights.detach())


@in_float32
def diversity_error(gradient: Tensor, weight: Tensor | None = None) -> Tensor:
    """Computes the mean over states of sum_{i != j} cos(g_i, g_j) / (E - 1), which EDAC lowers.

    g_i is the gradient of Q_i(s, a) by the action of the data. Gradients of different directions
    make the least Q value lower for actions that the data lacks (An et al. 2021, arXiv:2110.01548,
    equation 6).

    Args:
        gradient: float32 [E, B, A]; with its graph; E >= 2.
        weight: float32 [B]; factors of the losses of the samples.

    Returns:
        A scalar with its graph.
    """
    unit = gradient / (gradient.norm(dim=-1, keepdim=True) + 1e-10)
    total = unit.sum(0).square().sum(-1) - unit.square().sum((0, -1))
    return weighted_mean(total, weight) / (len(gradient) - 1)


def soft_minimum(q: Tensor, share: float = 0.75) -> Tensor:
    """Computes share min_e Q_e + (1 - share) max_e Q_e, the clipped double Q value of BCQ.

    Fujimoto et al. 2019, arXiv:1812.02900, equation 14.

    Args:
        q: float32 [E, ...].
        share: Weight of the minimum.

    Returns:
        float32 [...].
    """
    return share * q.amin(0) + (1 - share) * q.amax(0)
