"""Exploration: schedules, and selecting discrete actions from logits.

The functions take arrays or tensors. Random numbers are arguments, so that sampling and selecting
can be tested separately. Torch is used for tensors only and is not imported here.

Shapes: K observations, A actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from dicore.data import Tree
from dicore.data.tree import is_tensor, loaded_torch
from dicore.errors import ActionError, NonFiniteError, SchemaError, UsageError

__all__ = [
    "allowed", "any_of", "eps_greedy", "get_epsilon_greedy_fn", "get_piecewise_schedule",
    "get_schedule", "greedy", "proportional", "softmax", "uniform",
]  # fmt: skip

Array = Any
"""An array or a tensor; a function returns the type that it is given."""

Schedule = Callable[[float], float]


def get_epsilon_greedy_fn(
    start: float, end: float, decay: float, type_: Literal["exp", "linear"] = "exp"
) -> Schedule:
    """Returns the schedule of epsilon, a function of the env steps x; see `get_schedule`.

    exp:    eps(x) = end + (start - end) exp(-x / decay)
    linear: eps(x) = start + (end - start) min(x / decay, 1)

    Args:
        start: Initial epsilon, in [0, 1].
        end: Final epsilon, in [0, 1].
        decay: Time constant (exp) or length (linear) of the decay in env steps, > 0.
        type_: Exponential or linear decay.

    Raises:
        UsageError: a number is out of range or `type_` is unknown.
    """
    if not (0 <= start <= 1 and 0 <= end <= 1):
        raise UsageError(f"epsilon must be in [0, 1], got start={start!r}, end={end!r}")
    if not decay > 0:
        raise UsageError(f"decay of epsilon must be > 0, got {decay!r}")
    if type_ not in ("exp", "linear"):
        raise UsageError(f"unknown epsilon schedule '{type_}'; expected exp, linear")
    return get_schedule(type_, start, end, decay)


def get_schedule(
    type_: Literal["constant", "linear", "exp", "cosine"],
    start: float,
    end: float | None = None,
    length: float = 1.0,
) -> Schedule:
    """Returns a function of x (env steps, updates) from `start` at 0 to `end`.

    linear: start + (end - start) min(x / length, 1)
    exp:    end + (start - end) exp(-x / length)
    cosine: end + (start - end) (1 + cos(pi min(x / length, 1))) / 2 (Loshchilov and Hutter 2017)

    Before 0 it is `start`.

    Args:
        type_: Form of the schedule; `constant` is `start` throughout.
        start: First value.
        end: Last value; None: `start`.
        length: Length (linear, cosine) or time constant (exp) in units of x, > 0.

    Raises:
        UsageError: a number is not finite, length is not above 0, or `type_` is unknown.
    """
    last = start if end is None else end
    if not (math.isfinite(start) and math.isfinite(last)):
        raise UsageError(f"a schedule needs finite values, got start={start!r}, end={end!r}")
    if not length > 0:
        raise UsageError(f"length of a schedule must be > 0, got {length!r}")
    if type_ not in _SHARES:
        raise UsageError(f"unknown schedule '{type_}'; expected {', '.join(_SHARES)}")
    share = _SHARES[type_]
    return lambda x: last + (start - last) * share(max(x / length, 0.0))


_SHARES: dict[str, Schedule] = {
    "constant": lambda _: 1.0,
    "linear": lambda x: 1 - min(x, 1.0),
    "exp": lambda x: math.exp(-x),
    "cosine": lambda x: (1 + math.cos(math.pi * min(x, 1.0))) / 2,
}
"""Share of the first value that is left, by x / length >= 0."""


def get_piecewise_schedule(points: Sequence[tuple[float, float]]) -> Schedule:
    """Returns a function of x that interpolates linearly between points, flat outside of them.

    Args:
        points: (x, value) by rising x.

    Raises:
        UsageError: there is no point, a number is not finite, or x does not rise.
    """
    xs, values = [float(x) for x, _ in points], [float(value) for _, value in points]
    rising = all(a < b for a, b in pairwise(xs))
    if not xs or not rising or not all(map(math.isfinite, xs + values)):
        raise UsageError(f"points must be finite (x, value) by rising x, got {list(points)}")
    return lambda x: float(np.interp(x, xs, values))


def uniform(rng: Any, shape: tuple[int, ...], like: Array) -> Array:
    """Samples float64 in [0, 1) from a NumPy or torch generator; array or tensor like `like`."""
    if isinstance(rng, np.random.Generator):
        noise = rng.random(shape)
        return _torch().from_numpy(noise).to(like.device) if is_tensor(like) else noise
    torch = _torch()
    drawn = torch.rand(shape, generator=rng, device=rng.device, dtype=torch.float64)
    return drawn.to(like.device) if is_tensor(like) else drawn.cpu().numpy()


def allowed(mask: Array, logit: Array) -> Array:
    """Returns a mask as bool [K, A], array or tensor like `logit`.

    Args:
        mask: [K, A]; nonzero: the action is allowed.
        logit: [K, A].

    Raises:
        SchemaError: the shapes differ.
        ActionError: a row allows no action.
    """
    if is_tensor(logit):
        mask = _torch().as_tensor(mask, device=logit.device) != 0
    else:
        mask = np.asarray(mask.cpu() if is_tensor(mask) else mask) != 0
    if mask.shape != logit.shape:
        raise SchemaError(
            f"action_mask has shape {tuple(mask.shape)}, the logits have shape {tuple(logit.shape)}"
        )
    some = mask.any(-1)
    if not some.all():
        row = some.tolist().index(False)
        raise ActionError(
            f"row {row} of action_mask allows no action",
            hint="as long as an episode goes on, its environment has to allow one",
            context={"row": row},
        )
    return mask


def opened(mask: Array) -> Array:
    """Returns a mask as bool [..., A], in which rows that allow no action allow all.

    Terminal observations may forbid all actions; no value that follows them counts.

    Args:
        mask: [..., A]; nonzero: the action is allowed.
    """
    found = mask != 0
    return found | ~found.any(-1)[..., None]


def mask_of(obs: Tree) -> Tree:
    """Returns the `action_mask` of observations, or None if they have none."""
    return obs.get("action_mask") if isinstance(obs, Mapping) else None


def next_mask_of(obs: Tree) -> Tree:
    """Returns the `action_mask` of next observations, which may be terminal; see `opened`."""
    mask = mask_of(obs)
    return None if mask is None else opened(mask)


def masks_of(mask: Tree, heads: int) -> list[Any]:
    """Returns the action mask of each head.

    Args:
        mask: A list with one mask [K, A] per head, or an array [K, heads, A] of all.
        heads: Number of heads.

    Raises:
        UsageError: the number of masks is another.
    """
    if isinstance(mask, list | tuple):
        masks = list(mask)
    else:
        masks = [mask[:, head] for head in range(mask.shape[1])] if mask.ndim == 3 else []
    if len(masks) != heads:
        raise UsageError(f"action_mask must be a list of {heads} masks, one per head")
    return masks


def greedy(logit: Array, mask: Array | None = None) -> Array:
    """Selects the largest logit, the first if several are equal.

    Args:
        logit: [K, A].
        mask: bool [K, A], from `allowed`.

    Returns:
        int64 [K].

    Raises:
        NonFiniteError: a logit is NaN or the largest one is infinite.
        ActionError: no allowed action has a logit above -inf.
    """
    left = logit if mask is None else _where(mask, logit, -np.inf)
    _check_largest(left)
    return left.argmax(-1)


def _check_largest(logit: Array) -> None:
    """Raises an error if a row of logits [K, A] has no largest one that is finite.

    Tensors on other devices than the CPU are not looked at, which would wait for them.
    """
    if is_tensor(logit):
        if logit.device.type != "cpu":
            return
        logit = logit.detach().float().numpy()
    if math.isfinite(logit.sum()):  # most often; else an entry is masked or something is wrong
        return
    best = logit.max(-1)
    bad = np.flatnonzero(~np.isfinite(best))
    if not len(bad):
        return
    row = int(bad[0])
    if best[row] == -np.inf:
        raise ActionError(
            f"row {row}: no action is left that is allowed and has a logit above -inf",
            hint="the network or the action_mask forbids every action",
            context={"row": row},
        )
    raise NonFiniteError(
        f"row {row}: the network returned {best[row]} among the logits",
        hint="lower policy.learn.learning_rate, or resume from an earlier checkpoint",
        context={"row": row},
    )


def softmax(logit: Array, alpha: float = 1.0, mask: Array | None = None) -> Array:
    """Returns float64 [K, A] proportional to exp(alpha * logit), at most 1; 0 where masked.

    Raises:
        NonFiniteError: a logit is NaN or the largest one is infinite.
        ActionError: no allowed action has a logit above -inf.
    """
    z = logit.detach().double() if is_tensor(logit) else logit.astype(np.float64)
    z = z * alpha if alpha else _where(abs(z) < np.inf, 0.0, z)  # 0 * -inf would be NaN
    if mask is not None:
        z = _where(mask, z, -np.inf)
    _check_largest(z)
    if is_tensor(z):
        return (z - z.amax(-1, keepdim=True)).exp()
    return np.exp(z - z.max(-1, keepdims=True))


def proportional(weight: Array, noise: Array) -> Array:
    """Samples action a with probability weight_a / sum of weights; never one of weight 0.

    Args:
        weight: float64 [K, A], >= 0.
        noise: float64 [K], uniform in [0, 1).

    Returns:
        int64 [K].

    Raises:
        ActionError: a weight is negative or NaN, or the sum of a row is 0 or infinite.
    """
    total = weight.cumsum(-1)
    _check_some(weight, total[..., -1])
    return (total <= noise[..., None] * total[..., -1:]).sum(-1)


def _check_some(weight: Array, total: Array) -> None:
    """Raises an error if weights [K, A] are no probabilities of some action; see `_check_largest`.

    Args:
        weight: [K, A].
        total: Their sums [K].
    """
    if is_tensor(total) and total.device.type != "cpu":
        return
    some = (total > 0) & (total < np.inf)
    if some.all() and not (weight < 0).any():
        return
    row = (some & (weight >= 0).all(-1)).tolist().index(False)
    raise ActionError(
        f"row {row}: the weights of all actions that are allowed sum up to {float(total[row])}"
        f" and are at least {float(weight[row].min())}",
        hint="the network or the action_mask forbids every action, or `prob` has no probabilities",
        context={"row": row},
    )


def finite(action: Array) -> Array:
    """Returns continuous actions [K, ...] as they are.

    Raises:
        NonFiniteError: one is NaN or infinite; tensors are looked at on the CPU only.
    """
    found = action.detach() if is_tensor(action) else action
    if is_tensor(action) and action.device.type != "cpu":
        return action
    if not math.isfinite(found.sum()):  # or only the sum overflows
        bad = np.flatnonzero(~np.isfinite(np.asarray(found)).reshape(len(found), -1).all(-1))
        if len(bad):
            row = int(bad[0])
            raise NonFiniteError(
                f"row {row}: the network returned {found[row].tolist()} for an action",
                hint="lower policy.learn.learning_rate, or resume from an earlier checkpoint",
                context={"row": row},
            )
    return action


def any_of(logit: Array, noise: Array, mask: Array | None = None) -> Array:
    """Samples uniformly among the allowed actions.

    Args:
        logit: [K, A]; only its shape and type are used.
        noise: float64 [K], uniform in [0, 1).
        mask: bool [K, A], from `allowed`.

    Returns:
        int64 [K].
    """
    if mask is not None:
        return proportional(mask.double() if is_tensor(mask) else mask.astype(np.float64), noise)
    scaled = noise * logit.shape[-1]
    return scaled.long() if is_tensor(scaled) else scaled.astype(np.int64)


def eps_greedy(
    logit: Array, eps: Any, coin: Array, noise: Array, mask: Array | None = None
) -> Array:
    """Samples a random action where the coin is below eps, otherwise selects the largest logit.

    Args:
        logit: [K, A].
        eps: Probability of a random action: a number, or one per observation [K].
        coin: float64 [K], uniform in [0, 1).
        noise: float64 [K], uniform in [0, 1), independent of `coin`.
        mask: bool [K, A], from `allowed`.

    Returns:
        int64 [K].
    """
    return _where(coin < eps, any_of(logit, noise, mask), greedy(logit, mask))


def _where(condition: Array, yes: Array, no: Any) -> Array:
    if is_tensor(condition):
        return _torch().where(condition, yes, no)
    return np.where(condition, yes, no)


def _torch() -> Any:
    torch = loaded_torch()
    assert torch is not None, "tensors and torch generators exist only with torch"
    return torch
