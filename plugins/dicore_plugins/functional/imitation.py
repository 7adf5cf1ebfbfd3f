"""Losses of learning from demonstrations: behavioural cloning, DQfD and GAIL.

Losses are means over the samples, each multiplied by its weight first. Losses of half precision
inputs are computed in float32.

Shapes: B samples, A actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from dicore.errors import UsageError
from dicore_plugins.functional.distributions import log_prob_entropy
from dicore_plugins.functional.losses import in_float32, weighted_mean

__all__ = ["GAILLoss", "bc_error", "gail_error", "gail_reward", "large_margin_error"]

RewardForm = Literal["gail", "log_d", "airl"]


@in_float32
def bc_error(
    output: Mapping[str, Any], action: Tensor, weight: Tensor | None = None, mask: Any = None
) -> tuple[Tensor, Tensor]:
    """Computes the loss -log pi(a|s) of behavioural cloning (Pomerleau 1991).

    For discrete actions this is the cross-entropy. A deterministic policy learns by `td_loss` of
    its actions against those shown, or any other regression.

    Args:
        output: Output of a network; see `log_prob_entropy`.
        action: The actions shown; see `log_prob_entropy`.
        weight: float32 [B]; factors of the losses of the samples.
        mask: See `log_prob_entropy`.

    Returns:
        A scalar with its graph, and -log pi(a|s) of each sample, float32 [B], detached.
    """
    log_prob, _ = log_prob_entropy(output, action, mask)
    return -weighted_mean(log_prob, weight), -log_prob.detach()


@in_float32
def large_margin_error(
    q: Tensor, action: Tensor, weight: Tensor | None = None, *, margin: float = 0.8
) -> Tensor:
    """Computes the large-margin loss max_a [Q(s, a) + l(a_E, a)] - Q(s, a_E) of DQfD.

    l is 0 for a = a_E, else the margin (Hester et al. 2018, arXiv:1704.03732, equation 2).

    Args:
        q: [B, A]; with its graph.
        action: int64 [B]; a_E, the actions shown.
        weight: float32 [B]; 0 for samples that are not demonstrations.
        margin: How much better the actions shown must be.

    Returns:
        A scalar with its graph.
    """
    index = action.unsqueeze(1)
    raised = q + torch.full_like(q, margin).scatter_(1, index, 0.0)
    return weighted_mean(raised.amax(1) - q.gather(1, index).squeeze(1), weight)


class GAILLoss(NamedTuple):
    """Loss of a discriminator with its graph, and how well it does, without.

    Args:
        loss: Scalar to minimize.
        expert_accuracy: Share of expert samples with D > 0.5.
        agent_accuracy: Share of agent samples with D < 0.5.
    """

    loss: Tensor
    expert_accuracy: Tensor
    agent_accuracy: Tensor


@in_float32
def gail_error(
    expert_logit: Tensor,
    agent_logit: Tensor,
    expert_weight: Tensor | None = None,
    agent_weight: Tensor | None = None,
) -> GAILLoss:
    """Computes the loss -log D(expert) - log(1 - D(agent)) of a discriminator D = sigmoid(logit).

    Ho and Ermon 2016, arXiv:1606.03476, equation 17, with 1 for the expert.

    Args:
        expert_logit: [B]; of state-action pairs of the expert, with their graph.
        agent_logit: [B']; of state-action pairs of the agent, with their graph.
        expert_weight: float32 [B]; factors of the losses of the samples.
        agent_weight: float32 [B'].
    """
    expert = weighted_mean(functional.softplus(-expert_logit), expert_weight)
    agent = weighted_mean(functional.softplus(agent_logit), agent_weight)
    with torch.no_grad():
        right = (expert_logit > 0).float().mean(), (agent_logit < 0).float().mean()
    return GAILLoss(expert + agent, *right)


def gail_reward(logit: Tensor, form: RewardForm = "gail") -> Tensor:
    """Computes the reward that a discriminator D = sigmoid(logit) gives the agent.

    Args:
        logit: Any shape; of the agent's state-action pairs.
        form: `gail`: -log(1 - D), always positive (Ho and Ermon 2016). `log_d`: log D, always
            negative. `airl`: log D - log(1 - D), the logit (Fu et al. 2018, arXiv:1710.11248).

    Returns:
        The shape of the logits, without graph.

    Raises:
        UsageError: the form is unknown.
    """
    logit = logit.detach()
    if form == "gail":
        return functional.softplus(logit)
    if form == "log_d":
        return -functional.softplus(-logit)
    if form == "airl":
        return logit.clone()
    raise UsageError(f"unknown form '{form}'; expected gail, log_d, airl")
