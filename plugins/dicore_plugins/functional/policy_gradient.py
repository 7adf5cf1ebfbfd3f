"""Losses of policy gradients: REINFORCE, A2C, PPO, PPG, HAPPO, COMA and UPGO.

Losses are means over the samples. With `weight`, the loss of each sample is multiplied first (the
mean is over the number of samples). No gradient flows through advantages, targets and old values.
Losses of half precision inputs are computed in float32.

Shapes: B samples, A actions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from dicore.errors import UsageError
from dicore_plugins.functional.losses import check_shapes, in_float32, weighted_mean
from dicore_plugins.functional.td import expected_value

__all__ = [
    "PPOInfo", "PPOSlopes", "PolicyGradientLoss", "a2c_error", "coma_advantage", "happo_factor",
    "inverted_gradient", "pg_error", "ppg_joint_error", "ppo_error", "ppo_policy_error",
    "ppo_slopes", "upgo_error", "value_error",
]  # fmt: skip


class PolicyGradientLoss(NamedTuple):
    """Scalars with their graph; minimize policy + value_weight * value - entropy_weight * entropy.

    Args:
        policy: Loss of the policy.
        value: Squared error of the value, not halved; zero for a policy without critic.
        entropy: Mean entropy of the policy.
    """

    policy: Tensor
    value: Tensor
    entropy: Tensor


class PPOInfo(NamedTuple):
    """Scalars without graph that tell how far the policy moved.

    Args:
        approx_kl: Estimate of KL(old, new), mean of r - 1 - log r (Schulman 2020, k3).
        clipfrac: Fraction of samples whose ratio is outside of 1 +- clip_ratio.
    """

    approx_kl: Tensor
    clipfrac: Tensor


@in_float32
def pg_error(log_prob: Tensor, advantage: Tensor, weight: Tensor | None = None) -> Tensor:
    """Computes the loss -log pi(a|s) A of the policy gradient (Williams 1992).

    Args:
        log_prob: float32 [B]; log pi(a|s), with its graph.
        advantage: float32 [B]; returns, with or without a baseline subtracted.
        weight: float32 [B]; factors of the losses of the samples.

    Returns:
        A scalar with its graph.
    """
    check_shapes(log_prob=log_prob, advantage=advantage)
    return -weighted_mean(log_prob * advantage.detach(), weight)


@in_float32
def value_error(
    value: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    old_value: Tensor | None = None,
    clip_range: float | Tensor | None = None,
) -> Tensor:
    """Computes the squared error of the value, or PPO's clipped form of it.

    The clipped form is max((V - R)^2, (V_old + clip(V - V_old, -c, c) - R)^2), as in the code of
    Schulman et al. 2017 (arXiv:1707.06347).

    Args:
        value: float32 [B]; V(s), with its graph.
        target: float32 [B]; R.
        weight: float32 [B]; factors of the losses of the samples.
        old_value: float32 [B]; V(s) when the sample was collected; needed to clip.
        clip_range: c; None: no clipping.

    Returns:
        A scalar with its graph; not halved.

    Raises:
        UsageError: `clip_range` is given without `old_value`.
    """
    check_shapes(value=value, target=target, old_value=old_value)
    target = target.detach()
    if weight is None and clip_range is None and value.dtype is torch.float32:
        return F.mse_loss(value, target)
    error = (value - target).square()
    if clip_range is not None:
        if old_value is None:
            raise UsageError("clipping the value needs old_value")
        old = old_value.detach()
        low, high = old - clip_range, old + clip_range
        error = torch.maximum(error, (torch.clamp(value, low, high) - target).square())
    return weighted_mean(error, weight)


def a2c_error(
    log_prob: Tensor,
    entropy: Tensor,
    value: Tensor,
    advantage: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
) -> PolicyGradientLoss:
    """Computes the losses of advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783).

    Args:
        log_prob: float32 [B]; log pi(a|s), with its graph.
        entropy: float32 [B]; of pi(.|s), with its graph.
        value: float32 [B]; V(s), with its graph.
        advantage: float32 [B].
        target: float32 [B]; returns to learn V from.
        weight: float32 [B]; factors of the losses of the samples.
    """
    return PolicyGradientLoss(
        pg_error(log_prob, advantage, weight),
        value_error(value, target, weight),
        weighted_mean(entropy, weight),
    )


@in_float32
def ppo_policy_error(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantage: Tensor,
    weight: Tensor | None = None,
    *,
    clip_ratio: float = 0.2,
    dual_clip: float | None = None,
) -> tuple[Tensor, PPOInfo]:
    """Computes PPO's clipped loss of the policy (Schulman et al. 2017, equation 7).

    With r = pi(a|s) / pi_old(a|s), it is -min(r A, clip(r, 1 - c, 1 + c) A). With a dual clip d,
    it is at most -d A where A < 0 (Ye et al. 2020, arXiv:1912.09729, equation 5).

    Args:
        log_prob: float32 [B]; log pi(a|s), with its graph.
        old_log_prob: float32 [B]; of the policy that collected the samples.
        advantage: float32 [B]; A.
        weight: float32 [B]; factors of the losses of the samples.
        clip_ratio: c.
        dual_clip: d, above 1; None: no second clip.

    Returns:
        A scalar with its graph, and how far the policy moved.

    Raises:
        UsageError: `dual_clip` is not above 1.
    """
    check_shapes(log_prob=log_prob, old_log_prob=old_log_prob, advantage=advantage)
    if dual_clip is not None and not dual_clip > 1:
        raise UsageError(f"dual_clip must be > 1, got {dual_clip!r}")
    advantage = advantage.detach()
    change = log_prob - old_log_prob.detach()
    ratio = change.exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip_ratio, 1 + clip_ratio) * advantage)
    if dual_clip is not None:
        gain = torch.where(advantage < 0, torch.maximum(gain, dual_clip * advantage), gain)
    with torch.no_grad():
        moved = ratio - 1
        info = PPOInfo((moved - change).mean(), (moved.abs() > clip_ratio).to(moved.dtype).mean())
    return -weighted_mean(gain, weight), info


def ppo_error(  # noqa: PLR0913 - one argument per column
    log_prob: Tensor,
    old_log_prob: Tensor,
    entropy: Tensor,
    value: Tensor,
    old_value: Tensor,
    advantage: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    clip_ratio: float = 0.2,
    value_clip: float | Tensor | None = None,
    dual_clip: float | None = None,
) -> tuple[PolicyGradientLoss, PPOInfo]:
    """Computes the losses of proximal policy optimization (Schulman et al. 2017).

    Args:
        log_prob: float32 [B]; see `ppo_policy_error`.
        old_log_prob: float32 [B]; see `ppo_policy_error`.
        entropy: float32 [B]; of pi(.|s), with its graph.
        value: float32 [B]; see `value_error`.
        old_value: float32 [B]; see `value_error`.
        advantage: float32 [B]; A.
        target: float32 [B]; returns to learn V from.
        weight: float32 [B]; factors of the losses of the samples.
        clip_ratio: See `ppo_policy_error`.
        value_clip: Clip range of the value; None: the plain squared error.
        dual_clip: See `ppo_policy_error`.
    """
    policy, info = ppo_policy_error(
        log_prob, old_log_prob, advantage, weight, clip_ratio=clip_ratio, dual_clip=dual_clip
    )
    error = value_error(value, target, weight, old_value, value_clip)
    return PolicyGradientLoss(policy, error, weighted_mean(entropy, weight)), info


class PPOSlopes(NamedTuple):
    """Derivatives of the losses of `ppo_error`, without graph.

    Args:
        log_prob: float32 [B]; of the policy's loss by log pi(a|s).
        value: float32 [B]; of the value's loss by V(s).
    """

    log_prob: Tensor
    value: Tensor


@torch.no_grad()
def ppo_slopes(
    log_prob: Tensor,
    entropy: Tensor,
    value: Tensor,
    old_log_prob: Tensor,
    advantage: Tensor,
    target: Tensor,
    *,
    clip_ratio: float = 0.2,
) -> tuple[PolicyGradientLoss, PPOInfo, PPOSlopes]:
    """Computes `ppo_error` and its derivatives by their formulas, in a third of autograd's time.

    With r the ratio, the derivative of -min(r A, clip(r) A) by log pi is -r A where r A is the
    minimum, else 0.

    Args:
        log_prob: float32 [B]; see `ppo_policy_error`.
        entropy: float32 [B]; of pi(.|s).
        value: float32 [B]; V(s).
        old_log_prob: float32 [B]; see `ppo_policy_error`.
        advantage: float32 [B]; A.
        target: float32 [B]; returns to learn V from.
        clip_ratio: See `ppo_policy_error`.

    Returns:
        The losses without graph, how far the policy moved, and the derivatives.
    """
    check_shapes(log_prob=log_prob, old_log_prob=old_log_prob, advantage=advantage)
    check_shapes(log_prob=log_prob, value=value, target=target)
    count = log_prob.numel()
    change = log_prob - old_log_prob
    ratio = change.exp()
    plain = ratio * advantage
    bounded = ratio.clamp(1 - clip_ratio, 1 + clip_ratio).mul_(advantage)
    moved = ratio.sub_(1)
    info = PPOInfo((moved - change).mean(), (moved.abs() > clip_ratio).to(moved.dtype).mean())
    error = value - target
    losses = PolicyGradientLoss(
        torch.minimum(plain, bounded).mean().neg_(), error.square().mean(), entropy.mean()
    )
    slope = torch.where(plain <= bounded, plain, 0.0).mul_(-1 / count)
    return losses, info, PPOSlopes(slope, error.mul_(2 / count))


@in_float32
def ppg_joint_error(
    value: Tensor,
    target: Tensor,
    divergence: Tensor,
    weight: Tensor | None = None,
    *,
    auxiliary_value: Tensor | None = None,
    clone_weight: float = 1.0,
) -> PolicyGradientLoss:
    """Computes the losses of PPG's auxiliary phase (Cobbe et al. 2020, arXiv:2009.04416).

    Minimize policy + value_weight * value: with V_aux the value head of the policy network,

        policy: 0.5 (V_aux - R)^2 + beta KL(pi_old, pi)
        value:  (V - R)^2

    Args:
        value: float32 [B]; V(s) of the value network, with its graph.
        target: float32 [B]; R.
        divergence: float32 [B]; KL(pi_old(.|s), pi(.|s)), see `kl_divergence`.
        weight: float32 [B]; factors of the losses of the samples.
        auxiliary_value: float32 [B]; V_aux; None: `value`, of a network that both share.
        clone_weight: beta.

    Returns:
        Scalars with their graph; `entropy` is 0.
    """
    auxiliary = value_error(value if auxiliary_value is None else auxiliary_value, target, weight)
    check_shapes(target=target, divergence=divergence)
    policy = 0.5 * auxiliary + clone_weight * weighted_mean(divergence, weight)
    return PolicyGradientLoss(policy, value_error(value, target, weight), policy.new_zeros(()))


def happo_factor(log_prob: Tensor, old_log_prob: Tensor, factor: Tensor | None = None) -> Tensor:
    """Computes the factor of the next agent in HAPPO's sequential updates.

    M_{k+1} = M_k pi_new(a_k|s) / pi_old(a_k|s) (Kuba et al. 2022, arXiv:2109.11251, equation 8).
    The loss of an agent is `ppo_policy_error` with M times the advantage, or with M as `weight`.

    Args:
        log_prob: float32 [B]; of the agent's actions by its updated policy.
        old_log_prob: float32 [B]; by the policy that collected the samples.
        factor: float32 [B]; M_k of the agent; None: 1, for the first agent.

    Returns:
        float32 [B], without graph.
    """
    check_shapes(log_prob=log_prob, old_log_prob=old_log_prob, factor=factor)
    ratio = (log_prob - old_log_prob).detach().exp()
    return ratio if factor is None else factor.detach() * ratio


def coma_advantage(q: Tensor, log_policy: Tensor, action: Tensor) -> Tensor:
    """Computes the counterfactual advantage `Q(s, a) - sum_b pi(b|s) Q(s, b)`.

    COMA (Foerster et al. 2018, arXiv:1705.08926, equation 4); Q learns from `lambda_return` of the
    values of the actions taken.

    Args:
        q: float32 [B, A]; Q(s, .) of one agent's actions, those of the others fixed.
        log_policy: float32 [B, A]; log pi(.|s), -inf where an action is masked.
        action: int64 [B].

    Returns:
        float32 [B], without graph.
    """
    q, log_policy = q.detach(), log_policy.detach()
    taken = q.gather(1, action.unsqueeze(1)).squeeze(1)
    return taken - expected_value(q, log_policy)


@in_float32
def upgo_error(
    log_prob: Tensor,
    log_ratio: Tensor,
    value: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    rho_clip: float = 1.0,
) -> Tensor:
    """Computes the loss -min(rho_bar, pi / mu) (G - V) log pi(a|s) of UPGO.

    Vinyals et al. 2019, doi:10.1038/s41586-019-1724-z, methods.

    Args:
        log_prob: float32 [...]; log pi(a|s), with its graph.
        log_ratio: float32 [...]; log pi(a|s) - log mu(a|s), mu being the policy that acted.
        value: float32 [...]; V(s).
        target: float32 [...]; G, see `upgo_return`.
        weight: float32 [...]; factors of the losses of the samples.
        rho_clip: rho_bar.

    Returns:
        A scalar with its graph.
    """
    check_shapes(log_prob=log_prob, log_ratio=log_ratio, value=value, target=target)
    rho = log_ratio.detach().exp().clamp(max=rho_clip)
    return pg_error(log_prob, rho * (target - value), weight)


def inverted_gradient(gradient: Tensor, value: Tensor) -> Tensor:
    """Scales gradients of a loss so that values stay in [-1, 1].

    Inverting gradients (Hausknecht and Stone 2016, arXiv:1511.04143, equation 11): a gradient is
    scaled by the part of the range that is left in the direction in which it moves its value.
    Beyond a bound its sign changes.

    Args:
        gradient: Of a loss, which is minimized; any shape.
        value: The values that the gradient moves, same shape.
    """
    return gradient * torch.where(gradient < 0, 1 - value, 1 + value) / 2
