"""Log-probabilities of actions, from what a policy returns for observations.

Of continuous actions they are densities in the units of the environment. A Gaussian whose samples
are clipped to bounds has its tails as probabilities there, and so has a squashed one, whose samples
are rounded to them.

Shapes: B observations, A actions or dimensions of one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dicore.data import Tree
from dicore.errors import UsageError

__all__ = ["KINDS", "Bounds", "action_log_prob", "discrete_probabilities"]

Floats = npt.NDArray[np.float64]
_DISCRETE = ("softmax", "eps_greedy", "greedy")
KINDS = (*_DISCRETE, "gaussian", "squashed_gaussian")
"""Distributions of actions that policies declare as `action_distribution`."""
_EDGE = 1e-6
"""Distance from a bound, of half the width, in which squashed actions are one: float32 rounds."""
_log_of_tail = np.frompyfunc(
    lambda z: (
        math.log(math.erfc(z / math.sqrt(2)) / 2)
        if z < 30
        else -z * z / 2 - math.log(z * math.sqrt(2 * math.pi))
    ),
    1, 1,
)  # fmt: skip
"""log P(standard normal > z)."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least and largest continuous actions, float64 [A] each, and how a network's are scaled.

    Args:
        low: Lower bounds.
        high: Upper bounds.
        scaled: Whether the outputs of the network are in units of bounded dimensions.
    """

    low: Floats
    high: Floats
    scaled: bool = True

    @property
    def units(self) -> tuple[Floats, Floats]:
        """Middle and half width of each dimension; 0 and 1 of unbounded ones."""
        most = np.finfo(np.float32).max
        bounded = (np.abs(self.low) <= most) & (np.abs(self.high) <= most) & self.scaled
        low, high = np.where(bounded, self.low, -1.0), np.where(bounded, self.high, 1.0)
        return (high + low) / 2, np.where(high > low, (high - low) / 2, 1.0)


def discrete_probabilities(
    kind: str, output: Mapping[str, Tree], obs: Tree, eps: float = 0.0
) -> Floats:
    """Computes the probability of each discrete action.

    Args:
        kind: `softmax` of the output `logit`; `eps_greedy`: its largest one, or with probability
            `eps` any action.
        output: Outputs of the policy: `logit` [B, A].
        obs: Observations; their `action_mask` [B, A] allows actions.
        eps: Probability of a random action.

    Returns:
        float64 [B, A].

    Raises:
        UsageError: the policy has several discrete actions at once.
    """
    logit = output.get("logit")
    if logit is None or isinstance(logit, list | tuple) or np.ndim(logit) != 2:
        raise UsageError("the policy returns no `logit` of one discrete action")
    values = np.asarray(logit, np.float64)
    given: Tree = output if "action_mask" in output else obs
    if isinstance(given, Mapping) and "action_mask" in given:
        values = np.where(np.asarray(given["action_mask"]) != 0, values, -np.inf)
    if kind == "eps_greedy":
        allowed = np.isfinite(values)
        greedy = np.eye(values.shape[1])[values.argmax(1)]
        return np.asarray((1 - eps) * greedy + eps * allowed / allowed.sum(1, keepdims=True))
    weight = np.exp(values - values.max(1, keepdims=True))
    return np.asarray(weight / weight.sum(1, keepdims=True))


def action_log_prob(
    kind: str,
    output: Mapping[str, Tree],
    action: npt.NDArray[np.generic],
    *,
    obs: Tree = None,
    eps: float = 0.0,
    start: int = 0,
    bounds: Bounds | None = None,
) -> Floats:
    """Computes the log-probabilities of actions.

    Args:
        kind: `softmax` or `eps_greedy`, see `discrete_probabilities`; `greedy`: the output `action`
            alone; `gaussian` or `squashed_gaussian` of the outputs `mean` and `log_std`.
        output: Outputs of the policy for the observations.
        action: int64 [B], or float [B, ...] in the units of the environment.
        obs: Observations [B, ...].
        eps: Probability of a random action of `eps_greedy`.
        start: Lowest discrete action.
        bounds: Those of continuous actions.

    Returns:
        float64 [B]; -inf for an action that the policy never takes.

    Raises:
        UsageError: the policy has several discrete actions at once, or returns no distribution.
    """
    if kind in _DISCRETE:
        index = np.asarray(action).reshape(len(action), -1)
        if index.shape[1] != 1 or np.asarray(action).dtype.kind not in "iu":
            raise UsageError("the policy has several actions at once: they have no probabilities")
        with np.errstate(divide="ignore"):
            if kind == "greedy":
                same = np.asarray(output["action"]).reshape(-1) == index[:, 0]
                return np.asarray(np.log(same.astype(np.float64)))
            chance = discrete_probabilities(kind, output, obs, eps)
            return np.asarray(np.log(np.take_along_axis(chance, index - start, 1)[:, 0]))
    if bounds is None or not {"mean", "log_std"} <= output.keys():
        raise UsageError("the policy returns no `mean` and `log_std` of its actions")
    mean = np.asarray(output["mean"], np.float64).reshape(len(action), -1)
    log_std = np.broadcast_to(np.asarray(output["log_std"], np.float64), mean.shape)
    taken = np.asarray(action, np.float64).reshape(len(action), -1)
    density = _squashed if kind == "squashed_gaussian" else _clipped
    return np.asarray(density(mean, log_std, taken, bounds).sum(1), np.float64)


def _squashed(mean: Floats, log_std: Floats, action: Floats, bounds: Bounds) -> Floats:
    """Computes log densities of tanh of Gaussians, scaled to the bounds: [B, A].

    Within `_EDGE` of a bound they are log-probabilities: of all that was rounded to it.
    """
    middle, half = bounds.units
    largest = (np.abs(middle) + half).astype(np.float32)
    most = 1 - np.maximum(_EDGE, 8 * np.spacing(largest) / half)
    unit = np.clip((action - middle) / half, -most, most)
    drawn = np.arctanh(unit)
    found = _normal(drawn, mean, log_std) - np.log1p(-np.square(unit)) - np.log(half)
    at = np.abs(unit) >= most
    tail = np.sign(drawn) * (drawn - mean) * np.exp(-log_std)
    found[at] = _log_of_tail(tail[at]).astype(np.float64)
    return found


def _clipped(mean: Floats, log_std: Floats, action: Floats, bounds: Bounds) -> Floats:
    """Computes log densities of Gaussians, and log-probabilities at the bounds: [B, A]."""
    middle, half = bounds.units
    found = _normal((action - middle) / half, mean, log_std) - np.log(half)
    for bound, sign in ((bounds.low, -1), (bounds.high, 1)):
        at = np.isfinite(bound) & (sign * (action - bound) >= -_EDGE * half)
        if at.any():
            edge = np.where(np.isfinite(bound), (bound - middle) / half, 0.0)
            tail = sign * (edge - mean) * np.exp(-log_std)
            found[at] = _log_of_tail(tail[at]).astype(np.float64)
    return found


def _normal(x: Floats, mean: Floats, log_std: Floats) -> Floats:
    return np.asarray(
        -0.5 * np.square((x - mean) * np.exp(-log_std)) - log_std - 0.5 * math.log(2 * math.pi)
    )
