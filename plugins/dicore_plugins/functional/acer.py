"""Losses of ACER: actor-critic with experience replay (Wang et al. 2017, arXiv:1611.01224).

The targets are those of `retrace`. No gradient flows through Q, targets and importance ratios.

Shapes: B samples, A actions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dicore_plugins.functional.losses import check_shapes, in_float32, weighted_mean
from dicore_plugins.functional.td import expected_value

__all__ = ["ACERLoss", "acer_policy_error", "acer_trust_region"]


class ACERLoss(NamedTuple):
    """Scalars with their graph; minimize policy + correction - entropy_weight * entropy.

    Args:
        policy: Loss of the actions taken, with the clipped importance ratio.
        correction: Loss that corrects the bias of clipping, over all actions.
    """

    policy: Tensor
    correction: Tensor


@in_float32
def acer_policy_error(
    log_policy: Tensor,
    log_behaviour: Tensor,
    action: Tensor,
    q: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    clip: float = 10.0,
) -> ACERLoss:
    """Computes the truncated policy gradient with bias correction (equation 9).

    With rho(a) = pi(a|s) / mu(a|s) and V = sum_a pi(a|s) Q(s, a):

        policy:     -min(c, rho(a_t)) log pi(a_t|s) (Q_ret - V)
        correction: -sum_a max(0, 1 - c / rho(a)) pi(a|s) log pi(a|s) (Q(s, a) - V)

    Args:
        log_policy: float32 [B, A]; log pi(.|s), with its graph.
        log_behaviour: float32 [B, A]; log mu(.|s) of the policy that acted.
        action: int64 [B]; the actions taken.
        q: float32 [B, A]; Q(s, .).
        target: float32 [B]; Q_ret, see `retrace`.
        weight: float32 [B]; factors of the losses of the samples.
        clip: c.
    """
    check_shapes(log_policy=log_policy, log_behaviour=log_behaviour, q=q)
    check_shapes(action=action, target=target)
    log_p, q = log_policy.detach(), q.detach()
    policy = log_p.exp()
    ratio = torch.where(policy == 0, 0.0, (log_p - log_behaviour.detach()).exp())
    value = expected_value(q, log_p)
    index = action.unsqueeze(1)
    rho = ratio.gather(1, index).squeeze(1).clamp(max=clip)
    taken = log_policy.gather(1, index).squeeze(1)
    gain = rho * taken * (target.detach() - value)
    share = (1 - clip / ratio).clamp(min=0) * policy  # 1 - clip / 0 is -inf
    terms = share * log_policy * (q - value.unsqueeze(1))
    correction = torch.where(share == 0, 0.0, terms).sum(1)
    return ACERLoss(-weighted_mean(gain, weight), -weighted_mean(correction, weight))


def acer_trust_region(gradient: Tensor, kl_gradient: Tensor, limit: float = 1.0) -> Tensor:
    """Limits how far an update moves the policy from the average policy (equation 12).

        z = g - max(0, (k . g - delta) / (k . k)) k

    Pass the result on by `statistics.backward(gradient=-z / B)`.

    Args:
        gradient: float32 [B, A]; g of each sample, the direction in which its objective (minus its
            loss) rises, with respect to the outputs (logits) of the policy.
        kl_gradient: float32 [B, A]; k, the gradient of KL(average policy, policy) of each sample
            with respect to the same outputs.
        limit: delta.

    Returns:
        float32 [B, A], without graph.
    """
    check_shapes(gradient=gradient, kl_gradient=kl_gradient)
    gradient, kl_gradient = gradient.detach(), kl_gradient.detach()
    along = (gradient * kl_gradient).sum(1, keepdim=True)
    square = kl_gradient.square().sum(1, keepdim=True)
    share = ((along - limit) / square.clamp(min=torch.finfo(square.dtype).tiny)).clamp(min=0)
    return gradient - share * kl_gradient
