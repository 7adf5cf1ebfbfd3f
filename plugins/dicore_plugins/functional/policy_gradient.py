"""Losses of policy gradients: REINFORCE, A2C and PPO.

Losses are means over the samples. With `weight`, the loss of each sample is multiplied first (the
mean is over the number of samples). No gradient flows through advantages, targets and old values.

Shapes: B samples.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dicore.errors import UsageError


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


def pg_error(log_prob: Tensor, advantage: Tensor, weight: Tensor | None = None) -> Tensor:
    """Computes the loss -log pi(a|s) A of the policy gradient (Williams 1992).

    Args:
        log_prob: float32 [B]; log pi(a|s), with its graph.
        advantage: float32 [B]; returns, with or without a baseline subtracted.
        weight: float32 [B]; factors of the losses of the samples.

    Returns:
        A scalar with its graph.
    """
    return -_mean(log_prob * advantage.detach(), weight)


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
    target = target.detach()
    error = (value - target).square()
    if clip_range is not None:
        if old_value is None:
            raise UsageError("clipping the value needs old_value")
        old = old_value.detach()
        low, high = old - clip_range, old + clip_range
        error = torch.maximum(error, (torch.clamp(value, low, high) - target).square())
    return _mean(error, weight)


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
        _mean(entropy, weight),
    )


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
    advantage = advantage.detach()
    change = log_prob - old_log_prob.detach()
    ratio = change.exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip_ratio, 1 + clip_ratio) * advantage)
    if dual_clip is not None:
        if not dual_clip > 1:
            raise UsageError(f"dual_clip must be > 1, got {dual_clip!r}")
        gain = torch.where(advantage < 0, torch.maximum(gain, dual_clip * advantage), gain)
    with torch.no_grad():
        moved = ratio.detach() - 1
        info = PPOInfo(
            (moved - change.detach()).mean(), (moved.abs() > clip_ratio).to(moved.dtype).mean()
        )
    return -_mean(gain, weight), info


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
    return PolicyGradientLoss(policy, error, _mean(entropy, weight)), info


def _mean(loss: Tensor, weight: Tensor | None) -> Tensor:
    return loss.mean() if weight is None else (loss * weight).mean()
