"""One-step and n-step temporal-difference errors of Q values, as pure functions.

Target (Mnih et al. 2015, doi:10.1038/nature14236; the double form of van Hasselt et al. 2015,
arXiv:1509.06461, selects the next action by the online network):

    y = R + gamma_k (1 - done) Q'(s', a')

where R is the discounted sum of the k bridged rewards and gamma_k = gamma^k; k = 1 is the one-step
form. No function synchronises with the device. Losses of half precision inputs are computed in
float32.

Shapes: B rows, A actions, H heads, E networks of an ensemble, T steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from dicore.data import Batch, Tree
from dicore.errors import SchemaError, UsageError
from dicore_plugins.functional.exploration import opened

__all__ = [
    "Criterion", "by_head", "discounted_sum", "dqn_td_target", "expected_value", "legal",
    "nstep_td_error", "q_nstep_target", "q_nstep_td_loss", "sequence_priority", "td_loss",
]  # fmt: skip

Criterion = Literal["huber", "mse"]
_HALF = (torch.float16, torch.bfloat16)
_LEAST, _NARROW = -1e8, ("float16", "torch.float16")
_LOSSES: dict[str, Callable[..., Tensor]] = {"huber": F.huber_loss, "mse": F.mse_loss}


def legal(q: Tree, obs: Tree) -> Tree:
    """Returns Q values in which actions that the observation's `action_mask` forbids are least.

    They must not be chosen for the target of Q-learning: no sample corrects their values. A mask
    that forbids all actions, as of terminal observations, has no effect.

    Args:
        q: [..., A], an array or a tensor; or a list with one per head.
        obs: Observations; a dict may have `action_mask` [..., A] (nonzero: allowed); for several
            heads a list, or [..., H, A].

    Returns:
        The form of `q`; -1e8 (-3e4 in float16) for forbidden actions: softmax(q) is 0 there.
    """
    mask = obs.get("action_mask") if isinstance(obs, Mapping) else None
    if mask is None:
        return q
    if isinstance(q, list | tuple):
        masks = mask
        if not isinstance(mask, list | tuple):
            several = mask.ndim > q[0].ndim
            masks = [mask[..., head, :] for head in range(mask.shape[-2])] if several else [mask]
        return [legal(head, {"action_mask": each}) for head, each in zip(q, masks, strict=True)]
    least = _LEAST if str(q.dtype) not in _NARROW else -3e4
    if isinstance(q, Tensor):
        return q.masked_fill(~opened(mask), least)
    return np.where(opened(mask), q, q.dtype.type(least))


def by_head(function: Callable[..., Any], *values: Tree) -> Any:
    """Calls a function for the one action, or for each head of a multi-discrete action.

    Args:
        function: Takes one tensor for each of `values`.
        *values: Tensors; for H heads lists of H tensors, or tensors [B, H] with a column per head.

    Returns:
        What the function returns; with a list among the values, a list of H of that.
    """
    if not any(isinstance(each, list | tuple) for each in values):
        return function(*values)
    columns = [
        each if isinstance(each, list | tuple) else each.reshape(len(each), -1).unbind(1)
        for each in values
    ]
    return [function(*heads) for heads in zip(*columns, strict=True)]


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


def bridged(
    batch: Batch, gamma: float, nstep: int, *, ignore_done: bool = False
) -> tuple[Tensor, Tensor | None, Tensor | float]:
    """Returns R, done and gamma_k of samples, the arguments of the targets of this package.

    Args:
        batch: Columns reward and done, and of n-step samples value_gamma.
        gamma: Discount factor.
        nstep: k of samples without value_gamma.
        ignore_done: Bootstrap past terminal states, too: done is None.

    Returns:
        float32 [B]; float32 [B] or None; float32 [B] or one number.
    """
    value_gamma = batch.get("value_gamma")
    reward = discounted_sum(batch["reward"], gamma)
    done = None if ignore_done else batch["done"]
    return reward, done, gamma**nstep if value_gamma is None else value_gamma


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
        done: float32 or bool [B]; 1 where the bootstrap state is terminal. None bootstraps
            everywhere.
        value_gamma: gamma^k, one number or float32 [B].

    Returns:
        float32 [B].
    """
    value = next_q.gather(1, next_action.unsqueeze(1)).squeeze(1)
    if done is not None and done.dtype is torch.bool:
        done = done.to(reward.dtype)
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
    return td_loss(taken, target, weight, criterion, delta)


def td_loss(
    value: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    criterion: Criterion = "huber",
    delta: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Computes the loss of values V(s) or Q(s, a) against y; no gradient flows through y.

    Args:
        value: [B] or [E, B], with their graph.
        target: float32 [B]; y.
        weight: float32 [B]; see `q_nstep_td_loss`.
        criterion: See `q_nstep_td_loss`.
        delta: See `q_nstep_td_loss`.

    Returns:
        The mean loss, a scalar with its graph, and the absolute TD error, in the shape of the
        values, detached.

    Raises:
        SchemaError: the shapes do not fit.
        UsageError: the criterion is unknown.
    """
    target = target.detach()
    if value.dtype in _HALF:
        value = value.float()
    if value.shape != target.shape or (weight is not None and weight.shape != target.shape):
        target = _expanded(value, target, weight)
    if target.dtype != value.dtype:
        target = target.to(value.dtype)
    td_error = (value.detach() - target).abs_()
    if criterion not in _LOSSES:
        raise UsageError(f"unknown criterion '{criterion}'; expected huber, mse")
    loss_of, options = _LOSSES[criterion], {"delta": delta} if criterion == "huber" else {}
    if weight is None:
        return loss_of(value, target, **options), td_error
    return (loss_of(value, target, reduction="none", **options) * weight).mean(), td_error


def _expanded(value: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    """Expands targets [B] to an ensemble [E, B]; other shapes would be broadcast by mistake."""
    shapes = {tuple(each.shape) for each in (target, weight) if each is not None}
    if shapes != {tuple(value.shape[-1:])} or value.dim() > 2:
        found = " and ".join(map(str, sorted(shapes)))
        raise SchemaError(
            f"values must be [B] or [E, B], target and weight [B]; got values"
            f" {tuple(value.shape)}, target and weight {found}"
        )
    return target.expand_as(value)


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
        if not isinstance(target, Tensor):
            raise UsageError(f"the target is a {type(target).__name__}, not a tensor [B]")
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


def expected_value(q: Tensor, log_policy: Tensor, temperature: float | Tensor = 0.0) -> Tensor:
    """Computes V(s) = sum_a pi(a|s) (Q(s, a) - alpha log pi(a|s)).

    With alpha = 0 the value of expected SARSA; above it the soft value of discrete SAC
    (Christodoulou 2019, arXiv:1910.07207). Actions of probability 0 count for nothing.

    Args:
        q: float32 [B, A]; Q(s, .).
        log_policy: float32 [B, A]; log pi(.|s), -inf where an action is masked.
        temperature: alpha.

    Returns:
        float32 [B].
    """
    policy = log_policy.exp()
    terms = policy * (q - temperature * log_policy)
    return torch.where(policy == 0, 0.0, terms).sum(-1)


def sequence_priority(
    td_error: Tensor, mask: Tensor | None = None, largest_share: float = 0.9
) -> Tensor:
    """Computes the priority of sequences, `eta max_t |delta_t| + (1 - eta) mean_t |delta_t|`.

    Kapturowski et al. 2019 (R2D2), section 2.3.

    Args:
        td_error: float32 [B, T].
        mask: bool (or 0/1) [B, T]; the steps that count; None: all. A sequence without any has
            priority 0.
        largest_share: eta.

    Returns:
        float32 [B], without graph.
    """
    error = td_error.detach().abs()
    if mask is None:
        return largest_share * error.amax(1) + (1 - largest_share) * error.mean(1)
    counts = mask.to(torch.bool)
    error = torch.where(counts, error, 0.0)
    mean = error.sum(1) / counts.sum(1).clamp(min=1)
    return largest_share * error.amax(1) + (1 - largest_share) * mean
