"""Losses of PPO and A2C for S seeds, and their derivatives by the outputs of the networks.

The equations are those of `dicore_plugins.functional.policy_gradient`, whose means are over all
samples; here they are over those of each seed.

Shapes: S seeds, B samples, A actions or dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dicore_plugins.functional.distributions import categorical_and_pull
from dicore_plugins.functional.exploration import allowed

__all__ = ["Losses", "Outputs", "losses_of"]

_FORBIDDEN = -1e8
"""Logit of a masked action; see `log_probabilities`."""
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Outputs(NamedTuple):
    """Outputs of the networks.

    Args:
        action: float32 [S, B, A]; logits, or means.
        log_std: float32 [S, A]; None: discrete actions.
        value: float32 [S, B].
    """

    action: Tensor
    log_std: Tensor | None
    value: Tensor


class Losses(NamedTuple):
    """Losses of an update, and the derivatives of the whole loss.

    Args:
        total: float32 [S].
        policy: float32 [S].
        value: float32 [S].
        entropy: float32 [S].
        info: float32 [S] each; how far the policies moved.
        of_action: float32 [S, B, A].
        of_log_std: float32 [S, A], or None.
        of_value: float32 [S, B, 1]; by the output of the layers.
    """

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    info: Mapping[str, Tensor]
    of_action: Tensor
    of_log_std: Tensor | None
    of_value: Tensor


@torch.no_grad()
def losses_of(
    cfg: Any,
    batch: Mapping[str, Tensor],
    output: Outputs,
    settings: Sequence[Mapping[str, float]],
    scale: Tensor | None = None,
) -> Losses:
    """Computes the losses of S minibatches.

    Args:
        cfg: The policy's section.
        batch: Columns [S, B, ...] of the samples.
        output: What the networks return for them.
        settings: Annealed settings of each.
        scale: float32 [S, 1]; standard deviations of the returns, by which the outputs of the
            critics were multiplied; None: they were not.
    """
    annealed = [{name: each.get(name) for name in _ANNEALED} for each in settings]
    if any(each != annealed[0] for each in annealed):  # seeds that were trained for unequal times
        return _joined(
            losses_of(
                cfg,
                {name: column[row : row + 1] for name, column in batch.items()},
                Outputs(*(_row(part, row) for part in output)),
                [each],
                _row(scale, row),
            )
            for row, each in enumerate(settings)
        )
    return _losses_of(cfg, batch, output, settings[0], scale)


_ANNEALED = ("clip_ratio", "entropy_weight")


def _row(part: Any, row: int) -> Any:
    return None if part is None else part[row : row + 1]


def _joined(found: Iterable[Losses]) -> Losses:
    """Returns the losses of several seeds as those of one computation."""
    rows = [*found]
    info = {name: torch.cat([each.info[name] for each in rows]) for name in rows[0].info}
    parts: dict[str, Any] = {
        name: None
        if getattr(rows[0], name) is None
        else torch.cat([getattr(r, name) for r in rows])
        for name in Losses._fields
        if name != "info"
    }
    return Losses(**parts, info=info)


def _losses_of(
    cfg: Any,
    batch: Mapping[str, Tensor],
    output: Outputs,
    settings: Mapping[str, float],
    scale: Tensor | None,
) -> Losses:
    learn, size = cfg.learn, batch["advantage"].shape[1]
    log_prob, entropy, pull = _distribution(batch, output)
    clips = "clip_ratio" in learn
    if clips:
        clip = settings.get("clip_ratio", learn.clip_ratio)
        gain, slope, info = _clipped(batch, log_prob, clip, learn.dual_clip)
    else:
        gain, slope, info = log_prob * batch["advantage"], batch["advantage"], {}
    error, of_value = _value_errors(batch, output.value, learn.get("value_clip"), scale)
    unit = 1.0 if scale is None else scale.square().reciprocal()
    policy, value = -gain.mean(1), (error * unit).mean(1)
    entropy_weight = settings.get("entropy_weight", learn.entropy_weight)
    mean_entropy = entropy.mean(1)
    total = policy + learn.value_weight * value - entropy_weight * mean_entropy
    of_action, of_log_std = pull(slope * (-1 / size), entropy_weight)
    of_value = of_value * (learn.value_weight / size) * unit * (1.0 if scale is None else scale)
    return Losses(
        total, policy, value, mean_entropy, info, of_action, of_log_std, of_value.unsqueeze(2)
    )


def _clipped(
    batch: Mapping[str, Tensor], log_prob: Tensor, clip: float, dual_clip: float | None
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Computes PPO's gains, their derivatives by the log-probabilities, and what is logged."""
    advantage, change = batch["advantage"], log_prob - batch["log_prob"]
    ratio = change.exp()
    plain = ratio * advantage
    gain = torch.minimum(plain, ratio.clamp(1 - clip, 1 + clip) * advantage)
    slope = torch.where(plain <= gain, plain, 0.0)
    if dual_clip is not None:
        least = dual_clip * advantage
        bounded = (advantage < 0) & (gain < least)
        gain, slope = torch.where(bounded, least, gain), slope.masked_fill(bounded, 0.0)
    moved = ratio - 1
    info = {
        "approx_kl": (moved - change).mean(1),
        "clipfrac": (moved.abs() > clip).float().mean(1),
    }
    return gain, slope, info


def _value_errors(
    batch: Mapping[str, Tensor], value: Tensor, clip: float | None, scale: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Computes squared errors of the values, and their derivatives by the values."""
    error = value - batch["target"]
    if clip is None:
        return error.square(), 2 * error
    reach = clip if scale is None else clip * scale
    near = torch.clamp(value, batch["value"] - reach, batch["value"] + reach)
    bounded = near - batch["target"]
    plain = error.square() >= bounded.square()
    slope = torch.where(plain | (near == value), 2 * error, 0.0)
    return torch.maximum(error.square(), bounded.square()), slope


Pull = Callable[[Tensor, float], tuple[Tensor, Tensor | None]]


def _distribution(batch: Mapping[str, Tensor], output: Outputs) -> tuple[Tensor, Tensor, Pull]:
    """Returns log-probabilities and entropies [S, B], and how gradients flow back.

    That is a function of the derivatives of the losses by the log-probabilities, and the weight of
    the mean entropies.
    """
    if output.log_std is not None:
        return _gaussian(batch["raw_action"], output.action, output.log_std)
    logit, shape = output.action, output.action.shape
    if "mask" in batch:
        logit = torch.where(allowed(batch["mask"], logit), logit, _FORBIDDEN)
    rows = logit.reshape(-1, shape[2])
    log_prob, entropy, pull_rows = categorical_and_pull(rows, batch["action"].reshape(-1))

    def pull(slope: Tensor, entropy_weight: float) -> tuple[Tensor, None]:
        found = pull_rows(slope.reshape(-1), -entropy_weight / shape[1])
        return found.view(shape), None

    return log_prob.view(shape[:2]), entropy.view(shape[:2]), pull


def _gaussian(action: Tensor, mean: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor, Pull]:
    spread = log_std.unsqueeze(1)
    inverse = (-spread).exp()
    deviation = (action - mean) * inverse
    squares = deviation.square()
    log_prob = -(0.5 * squares + spread + _HALF_LOG_2PI).sum(2)
    entropy = (spread + (0.5 + _HALF_LOG_2PI)).sum(2).expand(log_prob.shape)

    def pull(slope: Tensor, entropy_weight: float) -> tuple[Tensor, Tensor]:
        column = slope.unsqueeze(2)
        of_log_std = (column * (squares - 1)).sum(1) - entropy_weight
        return column * deviation * inverse, of_log_std

    return log_prob, entropy, pull
