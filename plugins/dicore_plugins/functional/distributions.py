"""Log-probabilities and entropies of the outputs of policy networks.

The output of a network is a mapping with `logit` (discrete actions: [B, A], or a list with one per
head) or with `mean` and `log_std` (continuous actions: a Gaussian with a diagonal covariance, both
[B, A]), or with all three (hybrid actions: a discrete action with continuous arguments). Heads and
dimensions are independent: their log-probabilities and entropies are summed.

Shapes: B samples, A actions of a head or dimensions, H heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dicore.data import Tree
from dicore.errors import UsageError
from dicore_plugins.functional.exploration import allowed, masks_of
from dicore_plugins.functional.losses import check_shapes
from dicore_plugins.functional.td import expected_value

_HALF_LOG_2PI, _LOG_2 = 0.5 * math.log(2 * math.pi), math.log(2)
_FORBIDDEN = -1e8
"""Logit of a masked action: its probability underflows to 0, its gradient is 0, never NaN."""


def log_prob_entropy(
    output: Mapping[str, Tree], action: Tree, mask: Tree = None
) -> tuple[Tensor, Tensor]:
    """Computes the log-probability of the actions, and the entropy of the distribution.

    Args:
        output: Output of a network: `logit`, or `mean` and `log_std`, or all three.
        action: int64 [B] or [B, H], indices from 0; float32 [B, A] for continuous actions, before
            they are clipped to the action space; hybrid: both as `action_type` and `action_args`.
        mask: Discrete actions that are allowed (nonzero), in the form of `logit`, or of several
            heads [B, H, A]; None: all.

    Returns:
        float32 [B] each, with their graph.

    Raises:
        UsageError: the numbers of heads, actions and masks differ, or the output has neither form.
        SchemaError: continuous actions and their means have different shapes.
    """
    logit = _logit(output)
    if logit is None:
        return _gaussian(output["mean"], output["log_std"], action)
    if isinstance(action, Mapping):
        pair = (
            _categorical(logit, action["action_type"], mask),
            _gaussian(output["mean"], output["log_std"], action["action_args"]),
        )
        log_prob, entropy = zip(*pair, strict=True)
        return log_prob[0] + log_prob[1], entropy[0] + entropy[1]
    if isinstance(logit, Tensor):
        if action.dim() == 2 and action.shape[1] == 1:
            action = action.squeeze(1)
        return _categorical(logit, action, mask)
    return _heads(logit, action, mask)


def _categorical(logit: Tensor, action: Tensor, mask: Tree) -> tuple[Tensor, Tensor]:
    log_p = log_probabilities(logit, mask)
    entropy = -(log_p.exp() * log_p).sum(-1)
    return log_p.gather(1, action.unsqueeze(1)).squeeze(1), entropy


@torch.no_grad()
def categorical_and_pull(
    logit: Tensor, action: Tensor
) -> tuple[Tensor, Tensor, Callable[[Tensor, float], Tensor]]:
    """Computes `log_prob_entropy` of one discrete action, and how gradients flow back.

    d log p_a / d logit = onehot(a) - p, d H / d logit = -p (log p + H).

    Args:
        logit: float32 [B, A].
        action: int64 [B] or [B, 1].

    Returns:
        Log-probability and entropy H, float32 [B] each, without graph; and a function that takes
        the derivatives of a loss by the log-probabilities [B], and by every entropy (a number), and
        returns the derivative by the logits [B, A].
    """
    log_p, index = torch.log_softmax(logit, -1), action.reshape(-1, 1)
    p = log_p.exp()
    entropy = (p * log_p).sum(-1).neg_()

    def pull(of_log_prob: Tensor, of_entropy: float) -> Tensor:
        with torch.no_grad():
            column = of_log_prob.unsqueeze(1)
            found = (p * column).neg_().scatter_add_(1, index, column)
            if of_entropy:
                found.addcmul_(p, log_p + entropy.unsqueeze(1), value=-of_entropy)
            return found

    return log_p.gather(1, index).squeeze(1), entropy, pull


def log_probabilities(logit: Tensor, mask: Tree = None) -> Tensor:
    """Computes the log-probabilities of discrete actions.

    Args:
        logit: float32 [..., A].
        mask: [..., A]; nonzero: allowed; None: all.

    Returns:
        float32 [..., A], with its graph; about -1e8 for masked actions (-3e4 in float16).
    """
    if mask is not None:
        forbidden = -3e4 if logit.dtype == torch.float16 else _FORBIDDEN
        logit = torch.where(allowed(mask, logit), logit, forbidden)
    return torch.log_softmax(logit, -1)


def _logit(output: Mapping[str, Tree]) -> Any:
    """Returns the logits of an output, or None for a Gaussian.

    Raises:
        UsageError: it has neither form.
    """
    logit = output.get("logit")
    if logit is None and not ("mean" in output and "log_std" in output):
        raise UsageError(
            f"the network returns {', '.join(sorted(output))}; expected logit, or mean and log_std"
        )
    return logit


def _heads(logit: Sequence[Tensor], action: Tensor, mask: Tree) -> tuple[Tensor, Tensor]:
    if len(logit) != action.shape[-1]:
        raise UsageError(
            f"{len(logit)} heads need actions [B, {len(logit)}]; got actions {list(action.shape)}"
        )
    masks = [None] * len(logit) if mask is None else masks_of(mask, len(logit))
    pairs = [
        _categorical(head, taken, each)
        for head, taken, each in zip(logit, action.unbind(1), masks, strict=True)
    ]
    log_p, entropy = zip(*pairs, strict=True)
    return torch.stack(log_p).sum(0), torch.stack(entropy).sum(0)


def _gaussian(mean: Tensor, log_std: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    if mean.shape != action.shape or log_std.shape[-1:] != mean.shape[-1:]:
        check_shapes(action=action, mean=mean, log_std=log_std)
    deviation = (action - mean) * torch.exp(-log_std)
    log_p = -(0.5 * deviation.square() + log_std + _HALF_LOG_2PI).sum(-1)
    entropy = (log_std + (0.5 + _HALF_LOG_2PI)).sum(-1)
    return log_p, entropy


def kl_divergence(old: Mapping[str, Tree], new: Mapping[str, Tree], mask: Tree = None) -> Tensor:
    """Computes KL(old, new) = E_old[log old(a|s) - log new(a|s)] of two outputs of a network.

    Args:
        old: Output of a network: `logit`, or `mean` and `log_std`, or all three. No gradient flows
            through it.
        new: Output of the same form.
        mask: Discrete actions that are allowed (nonzero); see `log_prob_entropy`.

    Returns:
        float32 [B], with the graph of `new`.

    Raises:
        UsageError: the numbers of heads or masks differ, or an output has neither form.
    """
    logits = _logit(old), _logit(new)
    if logits[0] is None or logits[1] is None:
        if logits != (None, None):
            raise UsageError("one output has logit and the other does not")
        return _gaussian_kl(old, new)
    heads = [[each] if isinstance(each, Tensor) else list(each) for each in logits]
    if len(heads[0]) != len(heads[1]):
        raise UsageError(f"outputs of {len(heads[0])} and {len(heads[1])} heads")
    masks: list[Any] = [mask] * len(heads[0])
    if mask is not None and not isinstance(logits[1], Tensor):
        masks = masks_of(mask, len(heads[1]))
    parts = []
    for before, after, each in zip(*heads, masks, strict=True):
        before_log, after_log = (
            log_probabilities(before.detach(), each),
            log_probabilities(after, each),
        )
        terms = before_log.exp() * (before_log - after_log)
        parts.append(torch.where(before_log == -torch.inf, 0.0, terms).sum(-1))
    if "mean" in old:
        parts.append(_gaussian_kl(old, new))
    return torch.stack(parts).sum(0)


def _gaussian_kl(old: Mapping[str, Tree], new: Mapping[str, Tree]) -> Tensor:
    mean, log_std = old["mean"].detach(), old["log_std"].detach()
    change = (mean - new["mean"]).square() + (2 * log_std).exp()
    scaled = 0.5 * change * (-2 * new["log_std"]).exp()
    divergence: Tensor = (new["log_std"] - log_std + scaled - 0.5).sum(-1)
    return divergence


def squashed_gaussian(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Samples tanh(mean + exp(log_std) * noise) and computes its log-probability.

    The density of the squashed sample has the factor 1 / (1 - tanh(u)^2) per dimension (Haarnoja et
    al. 2018, arXiv:1801.01290, appendix C); log(1 - tanh(u)^2) is 2 (log 2 - u - softplus(-2 u)),
    which does not underflow.

    Args:
        mean: float32 [B, A]; before squashing.
        log_std: float32 [B, A]; before squashing.
        noise: float32 [B, A]; standard normal.

    Returns:
        Actions in (-1, 1), float32 [B, A], and their log-probabilities, float32 [B]; both with
        their graph.
    """
    if not mean.shape == log_std.shape == noise.shape:
        mean, log_std, noise = torch.broadcast_tensors(mean, log_std, noise)
    found: tuple[Tensor, Tensor] = _Squashed.apply(mean, log_std, noise)  # type: ignore[no-untyped-call]
    return found


@torch.no_grad()
def squashed_gaussian_and_pull(
    mean: Tensor, log_std: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]]:
    """Computes `squashed_gaussian`, and how gradients flow back.

    Args:
        mean: float32 [B, A].
        log_std: float32 [B, A].
        noise: float32 [B, A].

    Returns:
        Actions [B, A] and log-probabilities [B], without graph; and a function that takes the
        derivatives of a loss by both, and returns those by `mean` and `log_std`, [B, A] each.
    """
    action, log_prob, deviation = _squashed(mean, log_std, noise)

    def pull(of_action: Tensor, of_log_prob: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return _pulled(action, deviation, of_action, of_log_prob)

    return action, log_prob, pull


def _squashed(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns actions, log-probabilities, and exp(log_std) * noise."""
    deviation = log_std.exp().mul_(noise)
    raw = mean + deviation
    action = torch.tanh(raw)
    half_square = (0.5 * noise).mul_(noise)
    density = half_square.add_(log_std).add_(raw, alpha=-2)
    density.sub_(functional.softplus(raw.mul_(-2)), alpha=2)
    constant = (_HALF_LOG_2PI + 2 * _LOG_2) * mean.shape[-1]
    return action, density.sum(-1).neg_().sub_(constant), deviation


def _pulled(
    action: Tensor, deviation: Tensor, of_action: Tensor, of_log_prob: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the derivatives by mean and log_std.

    With u = mean + exp(log_std) * noise and a = tanh(u): d log pi / d u = 2 a, d a / d u = 1 - a^2.
    """
    of_log_prob = of_log_prob.unsqueeze(-1)
    inner = torch.addcmul(2 * of_log_prob, of_action, action, value=-1)
    of_raw = torch.addcmul(of_action, inner, action)
    return of_raw, torch.addcmul(-of_log_prob, of_raw, deviation)


class _Squashed(torch.autograd.Function):
    """`squashed_gaussian` with its gradient in four operations instead of twenty."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        action, log_prob, deviation = _squashed(mean, log_std, noise)
        ctx.save_for_backward(action, deviation, log_std, noise)
        return action, log_prob

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        action, deviation, log_std, noise = ctx.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives
            deviation = log_std.exp() * noise
        return *_pulled(action, deviation, *grads), None


def uniform_entropy(mask: Tensor) -> Tensor:
    """Computes the mean entropy of uniform choices among the allowed actions, the largest possible.

    Args:
        mask: [B, A]; nonzero: allowed.

    Returns:
        float32 [].
    """
    return (mask != 0).sum(-1).clamp(min=1).log().mean()


def soft_expectation(
    logit: Tensor, q: Tensor, alpha: Tensor | float, mask: Tree = None
) -> tuple[Tensor, Tensor]:
    """Computes sum_a pi(a) (Q(a) - alpha log pi(a)), the soft value of discrete actions.

    Christodoulou 2019, arXiv:1910.07207, equation 10; without alpha times the entropy it is the
    expected Q value.

    Args:
        logit: float32 [B, A]; pi = softmax(logit).
        q: float32 [B, A].
        alpha: Temperature, one number.
        mask: Actions that are allowed (nonzero), [B, A]; None: all.

    Returns:
        The values and the entropies of pi, float32 [B] each, with their graph.
    """
    log_p = log_probabilities(logit, mask)
    entropy = -(log_p.exp() * log_p).sum(-1)
    return expected_value(q, log_p, alpha), entropy
