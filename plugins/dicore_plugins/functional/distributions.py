"""Log-probabilities and entropies of the outputs of policy networks.

The output of a network is a mapping with `logit` (discrete actions: [B, A], or a list with one per
head) or with `mean` and `log_std` (continuous actions: a Gaussian with a diagonal covariance, both
[B, A]). Heads and dimensions are independent: their log-probabilities and entropies are summed.

Shapes: B samples, A actions of a head or dimensions, H heads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from dicore.errors import UsageError
from dicore_plugins.functional.exploration import allowed

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_FORBIDDEN = -1e8
"""Logit of a masked action: its probability underflows to 0, its gradient is 0, never NaN."""


def log_prob_entropy(
    output: Mapping[str, Any], action: Tensor, mask: Any = None
) -> tuple[Tensor, Tensor]:
    """Computes the log-probability of the actions, and the entropy of the distribution.

    Args:
        output: Output of a network: `logit`, or `mean` and `log_std`.
        action: int64 [B] or [B, H], indices from 0; float32 [B, A] for continuous actions, before
            they are clipped to the action space.
        mask: Discrete actions that are allowed (nonzero), in the form of `logit`; None: all.

    Returns:
        float32 [B] each, with their graph.

    Raises:
        UsageError: the numbers of heads, actions and masks differ, or the output has neither form.
    """
    logit = output.get("logit")
    if logit is None:
        if "mean" not in output or "log_std" not in output:
            raise UsageError(
                f"the network returns {', '.join(sorted(output))}; expected logit, or mean and"
                " log_std"
            )
        return _gaussian(output["mean"], output["log_std"], action)
    if isinstance(logit, Tensor):
        if action.dim() == 2 and action.shape[1] == 1:
            action = action.squeeze(1)
        return _categorical(logit, action, mask)
    return _heads(logit, action, mask)


def _categorical(logit: Tensor, action: Tensor, mask: Any) -> tuple[Tensor, Tensor]:
    if mask is not None:
        logit = torch.where(allowed(mask, logit), logit, _FORBIDDEN)
    log_p = torch.log_softmax(logit, -1)
    entropy = -(log_p.exp() * log_p).sum(-1)
    return log_p.gather(1, action.unsqueeze(1)).squeeze(1), entropy


def _heads(logit: Sequence[Tensor], action: Tensor, mask: Any) -> tuple[Tensor, Tensor]:
    masks = [None] * len(logit) if mask is None else mask
    if not isinstance(masks, list | tuple) or not len(masks) == len(logit) == action.shape[-1]:
        raise UsageError(
            f"{len(logit)} heads need actions [B, {len(logit)}] and, if any, {len(logit)} masks;"
            f" got actions {list(action.shape)}"
        )
    pairs = [
        _categorical(head, taken, each)
        for head, taken, each in zip(logit, action.unbind(1), masks, strict=True)
    ]
    log_p, entropy = zip(*pairs, strict=True)
    return torch.stack(log_p).sum(0), torch.stack(entropy).sum(0)


def _gaussian(mean: Tensor, log_std: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    deviation = (action - mean) * torch.exp(-log_std)
    log_p = -(0.5 * deviation.square() + log_std + _HALF_LOG_2PI).sum(-1)
    entropy = (log_std + (0.5 + _HALF_LOG_2PI)).sum(-1)
    return log_p, entropy
