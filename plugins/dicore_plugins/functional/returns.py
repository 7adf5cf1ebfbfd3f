"""TD(lambda) and UPGO returns of sequences.

TD(lambda) (Sutton and Barto 2018, chapter 12), for sequences that contain ends of episodes:

    G_t = r_t + gamma (1 - done_t) ((1 - lambda_t) V(s'_t) + lambda_t G_{t+1})

with lambda_t = 0 at ends and at the last step. With one lambda, G - V are the advantages of `gae`.
UPGO (Vinyals et al. 2019, doi:10.1038/s41586-019-1724-z) follows the sequence as long as it does
better than expected:

    lambda_t = 1 if r_{t+1} + gamma V(s'_{t+1}) >= V(s_{t+1}), else 0

s'_t is the observation after step t: after a truncation the last one of the cut episode. What lies
behind a termination or an end has no influence, not even if it is NaN.

Shapes: B sequences, T steps; further axes, such as those of agents, may follow in all columns.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dicore_plugins.functional.recursion import backward, before_end, check_columns, widened

__all__ = ["lambda_return", "upgo_return"]


@torch.no_grad()
def lambda_return(
    reward: Tensor,
    next_value: Tensor,
    done: Tensor,
    end: Tensor,
    *,
    gamma: float = 0.99,
    td_lambda: float | Tensor = 0.8,
) -> Tensor:
    """Computes the TD(lambda) returns G.

    Args:
        reward: float32 [B, T].
        next_value: float32 [B, T]; V(s').
        done: bool (or 0/1) [B, T]; s' is terminal.
        end: bool (or 0/1) [B, T]; the episode's last step, terminated or truncated.
        gamma: Discount factor.
        td_lambda: lambda, one number or [B, T]. 0: one-step returns; 1: whole episodes.

    Returns:
        float32 [B, T], without graph.

    Raises:
        SchemaError: the shapes differ.
    """
    check_columns(reward=reward, next_value=next_value, done=done, end=end)
    kind, done, end = reward.dtype, done.to(torch.bool), end.to(torch.bool)
    reward, next_value = widened(reward, next_value)
    stops = end | done
    stops[:, -1:] = True
    weight = torch.zeros_like(reward).add_(td_lambda).masked_fill_(stops, 0.0)
    after = reward + gamma * (1 - weight) * next_value
    return backward(torch.where(done, reward, after), gamma * weight, stops).to(kind)


@torch.no_grad()
def upgo_return(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    done: Tensor,
    end: Tensor,
    *,
    gamma: float = 1.0,
) -> Tensor:
    """Computes the UPGO returns; minus V(s) they are the advantages of the policy gradient.

    Args:
        reward: float32 [B, T].
        value: float32 [B, T]; V(s).
        next_value: float32 [B, T]; V(s').
        done: bool (or 0/1) [B, T]; s' is terminal.
        end: bool (or 0/1) [B, T]; the episode's last step, terminated or truncated.
        gamma: Discount factor; 1 in the paper.

    Returns:
        float32 [B, T], without graph.

    Raises:
        SchemaError: the shapes differ.
    """
    check_columns(reward=reward, value=value, next_value=next_value, done=done, end=end)
    kind, done = reward.dtype, done.to(torch.bool)
    end = end.to(torch.bool) | done
    reward, value, next_value = widened(reward, value, next_value)
    gain = torch.where(done, reward, reward + gamma * next_value) - value
    good = torch.where(gain.isnan(), gain, (gain >= 0).to(gain.dtype))
    better = before_end(good, torch.zeros_like(good), end)
    return lambda_return(reward, next_value, done, end, gamma=gamma, td_lambda=better).to(kind)
