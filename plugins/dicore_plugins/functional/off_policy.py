"""Targets of sequences that another policy may have collected: V-trace and Retrace.

V-trace (Espeholt et al. 2018, arXiv:1802.01561, section 4.1 and remark 1):

    delta_t = rho_t (r_t + gamma (1 - done_t) V(s'_t) - V(s_t))
    v_t = V(s_t) + delta_t + gamma (1 - end_t) c_t (v_{t+1} - V(s_{t+1}))

with rho_t = min(rho_bar, pi(a|s) / mu(a|s)) and c_t = lambda min(c_bar, pi(a|s) / mu(a|s)). s'_t is
the observation after step t: after a truncation the last one of the cut episode.

Retrace (Munos et al. 2016, arXiv:1606.02647; in this form Wang et al. 2017, arXiv:1611.01224,
equation 5):

    Q_t = r_t + gamma (1 - done_t) (V(s'_t) + (1 - end_t) c_{t+1} (Q_{t+1} - Q(s_{t+1}, a_{t+1})))

What lies behind a termination or an end has no influence, not even if it is NaN.

Shapes: B sequences, T steps; further axes, such as those of agents, may follow in all columns.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dicore_plugins.functional.recursion import backward, before_end, check_columns, widened

__all__ = ["VTrace", "retrace", "vtrace"]


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
    """Computes the V-trace targets (Espeholt et al. 2018, arXiv:1802.01561).

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
    check_columns(log_ratio=log_ratio, reward=reward, value=value, next_value=next_value,
                  done=done, end=end)  # fmt: skip
    kind, done = reward.dtype, done.to(torch.bool)
    end = end.to(torch.bool) | done
    log_ratio, reward, value, next_value = widened(log_ratio, reward, value, next_value)
    ratio = log_ratio.exp()
    rho, c = ratio.clamp(max=rho_clip), vtrace_lambda * ratio.clamp(max=c_clip)
    after = torch.where(done, reward, reward + gamma * next_value)
    target = value + backward(rho * (after - value), gamma * c, end)
    following = before_end(target, next_value, end)
    after = torch.where(done, reward, reward + gamma * following)
    return VTrace(target.to(kind), (rho * (after - value)).to(kind))


@torch.no_grad()
def retrace(  # noqa: PLR0913 - one argument per column
    log_ratio: Tensor,
    reward: Tensor,
    q: Tensor,
    next_value: Tensor,
    done: Tensor,
    end: Tensor,
    *,
    gamma: float,
    retrace_lambda: float = 1.0,
    c_clip: float = 1.0,
) -> Tensor:
    """Computes the Retrace targets of Q(s, a) (Munos et al. 2016, arXiv:1606.02647).

    Args:
        log_ratio: float32 [B, T]; log pi(a|s) - log mu(a|s), mu being the policy that acted.
        reward: float32 [B, T].
        q: float32 [B, T]; Q(s, a) of the actions taken.
        next_value: float32 [B, T]; V(s') = sum_a pi(a|s') Q(s', a), see `expected_value`.
        done: bool (or 0/1) [B, T]; s' is terminal.
        end: bool (or 0/1) [B, T]; the episode's last step, terminated or truncated.
        gamma: Discount factor.
        retrace_lambda: lambda, in [0, 1]; lower: less variance, more bias.
        c_clip: Upper bound of the importance ratio in c = lambda min(c_clip, pi / mu).

    Returns:
        float32 [B, T], without graph.

    Raises:
        SchemaError: the shapes differ.
    """
    check_columns(
        log_ratio=log_ratio, reward=reward, q=q, next_value=next_value, done=done, end=end
    )
    kind, done = reward.dtype, done.to(torch.bool)
    end = end.to(torch.bool) | done
    log_ratio, reward, q, next_value = widened(log_ratio, reward, q, next_value)
    trace = gamma * retrace_lambda * log_ratio.exp().clamp(max=c_clip)
    zero = torch.zeros_like(trace)
    factor = before_end(trace, zero, end)
    after = torch.where(done, reward, reward + gamma * next_value)
    return backward(after - before_end(trace * q, zero, end), factor, end).to(kind)
