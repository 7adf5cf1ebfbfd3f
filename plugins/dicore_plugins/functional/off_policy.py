"""V-trace targets (Espeholt et al. 2018, arXiv:1802.01561, section 4.1 and remark 1).

    delta_t = rho_t (r_t + gamma (1 - done_t) V(s'_t) - V(s_t))
    v_t = V(s_t) + delta_t + gamma (1 - end_t) c_t (v_{t+1} - V(s_{t+1}))

with rho_t = min(rho_bar, pi(a|s) / mu(a|s)) and c_t = lambda min(c_bar, pi(a|s) / mu(a|s)). s'_t is
the observation after step t: after a truncation the last one of the cut episode.

Shapes: B sequences, T steps.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dicore.errors import SchemaError


class VTrace(NamedTuple):
    """Targets without graph, float32 [B, T] each.

    Args:
        target: v, from which the value is learned.
        advantage: rho_t (r_t + gamma v_{t+1} - V(s_t)), the factor of the policy gradient.
    """

    target: Tensor
    advantage: Tensor


@torch.no_grad()
def vtrace(  # noqa: PLR0913 - one argument per column
    log_ratio: Tensor,
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    done: Tensor,
    end: Tensor,
    *,
    gamma: float,
    vtrace_lambda: float = 1.0,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
) -> VTrace:
    """Computes the targets of sequences that another policy may have collected.

    Args:
        log_ratio: float32 [B, T]; log pi(a|s) - log mu(a|s), mu being the policy that acted.
        reward: float32 [B, T].
        value: float32 [B, T]; V(s).
        next_value: float32 [B, T]; V(s').
        done: bool (or 0/1) [B, T]; s' is terminal.
        end: bool (or 0/1) [B, T]; the episode's last step, terminated or truncated.
        gamma: Discount factor.
        vtrace_lambda: lambda, in [0, 1]; lower: less variance, more bias.
        rho_clip: rho_bar; decides to which policy's value the targets converge.
        c_clip: c_bar; limits how far a correction reaches back.

    Raises:
        SchemaError: the shapes differ.
    """
    shapes = {tuple(each.shape) for each in (log_ratio, reward, value, next_value, done, end)}
    if len(shapes) > 1 or len(reward.shape) != 2:
        raise SchemaError(
            "log_ratio, reward, value, next_value, done and end must all be [B, T]; got"
            f" {', '.join(map(str, sorted(shapes)))}"
        )
    ratio = log_ratio.exp()
    rho, c = ratio.clamp(max=rho_clip), vtrace_lambda * ratio.clamp(max=c_clip)
    alive, going = gamma * (1 - done.to(value.dtype)), gamma * (1 - end.to(value.dtype))
    correction = rho * (reward + alive * next_value - value)
    trace = going * c
    for t in range(reward.shape[1] - 2, -1, -1):
        correction[:, t] += trace[:, t] * correction[:, t + 1]
    target = value + correction
    following = next_value.clone()  # v_{t+1}; V(s') where the sequence or the episode ends
    same = end[:, :-1].to(torch.bool)
    following[:, :-1] = torch.where(same, next_value[:, :-1], target[:, 1:])
    return VTrace(target, rho * (reward + alive * following - value))
