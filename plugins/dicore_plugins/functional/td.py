"""One-step and n-step temporal-difference errors of Q values, as pure functions.

Target (Mnih et al. 2015, doi:10.1038/nature14236; the double form of van Hasselt et al. 2015,
arXiv:1509.06461, selects the next action by the online network):

    y = R + gamma_k (1 - done) Q'(s', a')

where R is the discounted sum of the k bridged rewards and gamma_k = gamma^k; k = 1 is the one-step
form. No function synchronises with the device.

Shapes: B rows, A actions, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from dicore.errors import UsageError

Criterion = Literal["huber", "mse"]
_LOSSES: dict[str, Callable[..., Tensor]] = {"huber": F.huber_loss, "mse": F.mse_loss}


def discounted_sum(reward: Tensor, gamma: float) -> Tensor:
    """Computes R: sum_j gamma^j r_j.

    Args:
        reward: float32 [B, n], rewards of n steps, or [B], already summed.
        gamma: Discount factor.

    Returns:
        float32 [B].
    """
    if reward.dim() == 1:
        return reward
    powers = [gamma**step for step in range(reward.shape[1])]
    return reward @ torch.tensor(powers, dtype=reward.dtype, device=reward.device)


def q_nstep_target(
    next_q: Tensor,
    next_action: Tensor,
    reward: Tensor,
    done: Tensor | None,
    value_gamma: Tensor | float,
) -> Tensor:
    """Computes y.

    Args:
        next_q: float32 [B, A]; values of the bootstrap state by the target network.
        next_action: int64 [B]; the bootstrap action.
        reward: float32 [B]; discounted sum of the bridged rewards.
        done: float32 [B]; 1 where the bootstrap state is terminal. None bootstraps everywhere.
        value_gamma: gamma^k, one number or float32 [B].

    Returns:
        float32 [B].
    """
    value = next_q.gather(1, next_action.unsqueeze(1)).squeeze(1)
    if isinstance(value_gamma, Tensor):
        boot = value_gamma
        if done is not None:
            boot = torch.addcmul(value_gamma, value_gamma, done, value=-1)
        return torch.addcmul(reward, boot, value)
    if done is None:
        return torch.add(reward, value, alpha=value_gamma)
    return torch.addcmul(reward, torch.rsub(done, 1.0), value, value=value_gamma)


def dqn_td_target(
    next_q: Tensor,
    reward: Tensor,
    done: Tensor | None,
    value_gamma: Tensor | float,
    next_q_online: Tensor | None = None,
) -> Tensor:
    """Computes y with the greedy next action: of `next_q_online` (double DQN) or of `next_q`.

    Args:
        next_q: float32 [B, A]; by the target network.
        reward: float32 [B].
        done: float32 [B] or None; see `q_nstep_target`.
        value_gamma: gamma^k; see `q_nstep_target`.
        next_q_online: float32 [B, A]; by the online network, for double DQN.

    Returns:
        float32 [B].
    """
    chooser = next_q if next_q_online is None else next_q_online
    return q_nstep_target(next_q, chooser.argmax(1), reward, done, value_gamma)


def q_nstep_td_loss(
    q: Tensor,
    action: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    criterion: Criterion = "huber",
    delta: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Computes the loss of Q(s, a) against y; no gradient flows through the target.

    Args:
        q: [B, A]; values of the first state, with their graph.
        action: int64 [B]; the actions taken.
        target: float32 [B]; y.
        weight: float32 [B]; factors of the losses of the rows (importance sampling).
        criterion: `huber` (quadratic within delta, then linear) or `mse` (the square, not halved).
        delta: Error at which the Huber loss turns linear.

    Returns:
        The mean loss, a scalar with its graph, and the absolute TD error, float32 [B], detached.

    Raises:
        UsageError: the criterion is unknown.
    """
    taken = q.gather(1, action.unsqueeze(1)).squeeze(1)
    target = target.detach()
    td_error = (taken.detach() - target).abs_()
    if criterion not in _LOSSES:
        raise UsageError(f"unknown criterion '{criterion}'; expected huber, mse")
    loss_of, options = _LOSSES[criterion], {"delta": delta} if criterion == "huber" else {}
    if weight is None:
        return loss_of(taken, target, **options), td_error
    return (loss_of(taken, target, reduction="none", **options) * weight).mean(), td_error


def nstep_td_error(
    q: Tensor | Sequence[Tensor],
    action: Tensor,
    target: Tensor | Sequence[Tensor],
    weight: Tensor | None = None,
    criterion: Criterion = "huber",
    delta: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Computes `q_nstep_td_loss` for one head, or its mean over the H heads of multi-discrete.

    Args:
        q: [B, A], or H tensors [B, A_h].
        action: int64 [B] (or [B, 1]), or [B, H].
        target: float32 [B], or H of them.
        weight: float32 [B]; see `q_nstep_td_loss`.
        criterion: See `q_nstep_td_loss`.
        delta: See `q_nstep_td_loss`.

    Returns:
        The mean loss, a scalar with its graph, and the heads' mean absolute TD error, float32 [B].

    Raises:
        UsageError: the numbers of heads differ, or the criterion is unknown.
    """
    if isinstance(q, Tensor):
        assert isinstance(target, Tensor)
        if action.dim() == 2 and action.shape[1] == 1:
            action = action.squeeze(1)
        return q_nstep_td_loss(q, action, target, weight, criterion, delta)
    if action.dim() != 2 or not len(q) == action.shape[1] == len(target):
        raise UsageError(
            f"{len(q)} heads need {len(q)} targets and actions [B, {len(q)}]; got {len(target)}"
            f" targets and actions {list(action.shape)}"
        )
    results = [
        q_nstep_td_loss(head, taken, y, weight, criterion, delta)
        for head, taken, y in zip(q, action.unbind(1), target, strict=True)
    ]
    losses, errors = zip(*results, strict=True)
    return torch.stack(losses).mean(), torch.stack(errors).mean(0)
