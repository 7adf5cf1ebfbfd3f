"""Losses of learning from demonstrations: behavioural cloning, distillation, DQfD and GAIL.

Losses are means over the samples, each multiplied by its weight first. Losses of half precision
inputs are computed in float32.

Shapes: B samples, A actions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from dicore.data import Tree
from dicore.errors import UsageError
from dicore_plugins.functional.distributions import kl_divergence, log_prob_entropy
from dicore_plugins.functional.losses import in_float32, weighted_mean

__all__ = [
    "GAILLoss", "bc_error", "distillation_error", "gail_error", "gail_reward", "guided_cost_error",
    "info_nce_error", "large_margin_error",
]  # fmt: skip

RewardForm = Literal["gail", "log_d", "airl"]
Criterion = Literal["log_prob", "mse", "l1"]


@in_float32
def bc_error(
    output: Mapping[str, Tree],
    action: Tree,
    weight: Tensor | None = None,
    mask: Tree = None,
    criterion: Criterion = "log_prob",
) -> tuple[Tensor, Tensor]:
    """Computes the loss of behavioural cloning (Pomerleau 1991).

    Args:
        output: Output of a network; see `log_prob_entropy`.
        action: The actions shown; see `log_prob_entropy`.
        weight: float32 [B]; factors of the losses of the samples.
        mask: See `log_prob_entropy`.
        criterion: `log_prob`: -log pi(a|s), for discrete actions the cross-entropy. `mse` and `l1`:
            the mean squared and absolute distance of `mean` to the action, for continuous actions.

    Returns:
        A scalar with its graph, and the loss of each sample, float32 [B], detached.

    Raises:
        UsageError: the criterion is unknown, or needs continuous actions.
    """
    if criterion == "log_prob":
        log_prob, _ = log_prob_entropy(output, action, mask)
        error = -log_prob
    elif criterion in ("mse", "l1") and "mean" in output and "logit" not in output:
        distance = output["mean"] - action
        error = (distance.square() if criterion == "mse" else distance.abs()).mean(-1)
    else:
        raise UsageError(
            f"criterion '{criterion}' of outputs {', '.join(sorted(output))}; expected log_prob,"
            " or for continuous actions mse, l1"
        )
    return weighted_mean(error, weight), error.detach()


@in_float32
def distillation_error(
    expert: Mapping[str, Tree],
    output: Mapping[str, Tree],
    weight: Tensor | None = None,
    mask: Tree = None,
    temperature: float = 1.0,
) -> Tensor:
    """Computes the mean of KL(pi_E(.|s), pi(.|s)), policy distillation (Rusu et al. 2016).

    Args:
        expert: Output of the expert's network, of the same form as `output`; without gradient.
        output: Output of a network; see `log_prob_entropy`.
        weight: float32 [B]; factors of the losses of the samples.
        mask: See `log_prob_entropy`.
        temperature: What the expert's logits are divided by; a low one, such as 0.01, makes
            probabilities of Q values.

    Returns:
        A scalar with its graph.
    """
    logit = expert.get("logit")
    if logit is not None and temperature != 1:
        heads = [each / temperature for each in ([logit] if isinstance(logit, Tensor) else logit)]
        expert = {**expert, "logit": heads[0] if isinstance(logit, Tensor) else heads}
    return weighted_mean(kl_divergence(expert, output, mask), weight)


@in_float32
def info_nce_error(score: Tensor, weight: Tensor | None = None) -> Tensor:
    """Computes the loss -log softmax(score)_0 of implicit cloning (Florence et al. 2021).

    Equation 2 of arXiv:2109.00137; the score is minus the energy.

    Args:
        score: float32 [B, N]; f(s, a) of the action shown, first, and of N - 1 other actions.
        weight: float32 [B]; factors of the losses of the samples.

    Returns:
        A scalar with its graph.
    """
    return -weighted_mean(torch.log_softmax(score, 1)[:, 0], weight)


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


@in_float32
def guided_cost_error(
    expert_reward: Tensor, agent_reward: Tensor, agent_log_prob: Tensor | None = None
) -> Tensor:
    """Computes the loss log E_q[exp(r) / q] - E_expert[r] of a reward (Finn et al. 2016).

    Equation 2 of arXiv:1603.00448 with r = -cost, of single steps. The first term, the log of the
    partition function, is estimated from the steps of the agent and, as in section 4.2, of the
    expert, whose unknown probabilities count as the agent's mean.

    Args:
        expert_reward: [B]; of steps of the expert, with their graph.
        agent_reward: [B']; of steps of the agent, with their graph.
        agent_log_prob: float32 [B']; log q of the agent's actions; None: all are equally likely.

    Returns:
        A scalar with its graph.
    """
    log_prob = torch.zeros_like(agent_reward) if agent_log_prob is None else agent_log_prob
    ratio = torch.cat([agent_reward - log_prob, expert_reward - log_prob.mean()])
    return torch.logsumexp(ratio, 0) - math.log(len(ratio)) - expert_reward.mean()


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
