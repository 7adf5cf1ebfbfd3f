"""Off-policy estimators: the discounted return of a policy from episodes of another one.

The behaviour mu acted in the episodes; pi is evaluated. The ratio of a step is
rho_t = pi(a_t | s_t) / mu(a_t | s_t), the weight of an episode up to it w_t = rho_0 ... rho_t.

Shapes: N steps, E episodes, T steps of the longest one, R resamples.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dicore.errors import NonFiniteError, UsageError

__all__ = [
    "bootstrap_interval", "discounted_returns", "doubly_robust", "effective_episodes",
    "importance_sampling", "lengths_of", "log_weights", "observed", "of_episodes",
    "weighted_importance_sampling",
]  # fmt: skip

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def of_episodes(column: npt.ArrayLike, end: Bools) -> Floats:
    """Returns a column of steps with one row per episode, filled up with zeros.

    Args:
        column: [N]; steps in time order, one episode after another.
        end: bool [N]; the last step of each episode.

    Returns:
        float64 [E, T].
    """
    lengths = lengths_of(end)
    table = np.zeros((len(lengths), int(lengths.max())))
    table[np.arange(table.shape[1]) < lengths[:, None]] = np.asarray(column, np.float64)
    return table


def lengths_of(end: Bools) -> npt.NDArray[np.int64]:
    """Returns the steps of each episode, int64 [E], of the marks of their last ones, bool [N]."""
    return np.diff(np.flatnonzero(end), prepend=-1).astype(np.int64)


def observed(length: npt.NDArray[np.int64], cut: Bools) -> Floats:
    """Returns log-weights by which episodes that were not cut off stand for those that were.

    They are minus the logarithm of the probability of being recorded so far (Robins and Rotnitzky
    1992, inverse probability of censoring), estimated by Kaplan and Meier 1958; -inf after a cut,
    since only after an end rewards are known: 0. All are 0 if all that are cut have T steps.

    Args:
        length: int64 [E]; steps of each episode.
        cut: bool [E]; whether it was cut off, as by a time limit.

    Returns:
        float64 [E, T].
    """
    steps = int(length.max())
    going = np.array([((length > t) | (cut & (length == t))).sum() for t in range(steps)])
    lost = np.bincount(length[cut], minlength=steps)[:steps]
    log_chance = np.cumsum(np.log1p(-lost / np.maximum(going, 1)))
    at = np.minimum(np.arange(steps), length[:, None] - 1)
    gone = cut[:, None] & (np.arange(steps) >= length[:, None])
    return np.asarray(np.where(gone, -np.inf, -log_chance[at]), np.float64)


def discounted_returns(reward: Floats, gamma: float) -> Floats:
    """Computes the discounted return of each recorded episode.

    Args:
        reward: float64 [E, T]; 0 after the end of an episode.
        gamma: Discount.

    Returns:
        float64 [E].
    """
    return np.asarray(reward @ _discounts(reward, gamma), np.float64)


def log_weights(log_ratio: Floats) -> Floats:
    """Computes log w_t, which stays as it is after the end of an episode.

    Args:
        log_ratio: float64 [E, T]; log rho_t, -inf where pi never acts like that; 0 after the end.

    Returns:
        float64 [E, T].
    """
    return np.asarray(np.cumsum(log_ratio, 1), np.float64)


def importance_sampling(reward: Floats, log_weight: Floats, gamma: float) -> Floats:
    """Computes per-decision importance sampling, sum_t gamma^t w_t r_t (Precup et al. 2000).

    Args:
        reward: float64 [E, T]; 0 after the end of an episode.
        log_weight: float64 [E, T]; see `log_weights`.
        gamma: Discount.

    Returns:
        float64 [E]; their mean is unbiased.

    Raises:
        NonFiniteError: a weight overflows.
    """
    with np.errstate(over="ignore"):
        weight = np.exp(log_weight)
    _check_weights(weight, log_weight)
    return np.asarray((weight * reward) @ _discounts(reward, gamma), np.float64)


def weighted_importance_sampling(
    reward: Floats, log_weight: Floats, gamma: float, count: Floats | None = None
) -> Floats:
    """Computes weighted per-decision importance sampling (Precup et al. 2000; Thomas 2015).

    sum_t gamma^t sum_i w_it r_it / sum_i w_it: consistent, biased, of much less variance than
    `importance_sampling`. Weights are normalised by their largest one, so that none overflows.

    Args:
        reward: float64 [E, T]; 0 after the end of an episode.
        log_weight: float64 [E, T]; see `log_weights`. -inf leaves out an episode at a step, such as
            one that was cut off before; see `observed`.
        gamma: Discount.
        count: float64 [R, E]; how often each episode is counted; None: once.

    Returns:
        float64 [R], or [1] without `count`; NaN if all weights of a step are 0.
    """
    largest = log_weight.max(0)
    weight = np.exp(log_weight - np.where(np.isfinite(largest), largest, 0.0))
    count = np.ones((1, len(reward))) if count is None else count
    total, sums = count @ weight, count @ (weight * reward)
    with np.errstate(invalid="ignore"):
        return np.asarray((sums / total) @ _discounts(reward, gamma), np.float64)


def doubly_robust(
    reward: Floats,
    log_ratio: Floats,
    q: Floats,
    value: Floats,
    last_value: Floats,
    length: npt.NDArray[np.int64],
    gamma: float,
) -> Floats:
    """Computes the doubly robust estimate of each episode (Jiang and Li 2016, arXiv:1511.03722).

    V_t = v(s_t) + rho_t (r_t + gamma V_{t+1} - q(s_t, a_t)), from the last step to the first.

    Args:
        reward: float64 [E, T].
        log_ratio: float64 [E, T]; log rho_t, -inf where pi never acts like that; 0 after the end.
        q: float64 [E, T]; estimated values of the actions taken.
        value: float64 [E, T]; estimated values of the states under pi.
        last_value: float64 [E]; that of the state after the last step, 0 if it is terminal.
        length: int64 [E]; steps of each episode.
        gamma: Discount.

    Returns:
        float64 [E]; their mean is unbiased, whatever q is, if value is its mean under pi.

    Raises:
        NonFiniteError: a product of ratios overflows.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        ratio, found = np.exp(log_ratio), last_value.astype(np.float64)
        for at in range(reward.shape[1] - 1, -1, -1):
            error = reward[:, at] + gamma * found - q[:, at]
            # a ratio of 0 leaves nothing of what follows, even if that overflowed
            step = np.where(ratio[:, at] > 0, ratio[:, at] * error, 0.0)
            found = np.where(at < length, value[:, at] + step, found)
    _check_weights(found[:, None], log_weights(log_ratio))
    return found


def effective_episodes(log_weight: Floats) -> float:
    """Computes how many episodes with equal weights tell as much: (sum w)^2 / sum w^2.

    Args:
        log_weight: float64 [E, T]; see `log_weights`. Those of the last step are used.
    """
    last = log_weight[:, -1]
    if not np.isfinite(last.max()):
        return 0.0
    weight = np.exp(last - last.max())
    return float(weight.sum() ** 2 / np.square(weight).sum())


def bootstrap_interval(
    statistic: Callable[[Floats], Floats],
    episodes: int,
    rng: np.random.Generator,
    *,
    resamples: int = 1000,
    level: float = 0.95,
) -> tuple[float, float] | None:
    """Computes a percentile interval by drawing episodes with replacement (Efron 1979).

    Args:
        statistic: Returns the estimates [R] of counts float64 [R, E]; NaN: there is none.
        episodes: E.
        rng: Draws the episodes.
        resamples: R.
        level: Probability of the interval.

    Returns:
        Lower and upper bound; None with fewer than two episodes, or if most resamples have no
        estimate.
    """
    if episodes < 2:
        return None
    found = []
    some = max(1, 4_000_000 // episodes)
    for start in range(0, resamples, some):
        size = min(some, resamples - start)
        drawn = rng.multinomial(episodes, np.full(episodes, 1 / episodes), size)
        found.append(statistic(drawn.astype(np.float64)))
    values = np.concatenate(found)
    values = values[~np.isnan(values)]
    if len(values) < resamples / 2:
        return None
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _discounts(reward: Floats, gamma: float) -> Floats:
    if not 0 <= gamma <= 1:
        raise UsageError(f"discount: must be in [0, 1], got {gamma!r}")
    return np.asarray(gamma ** np.arange(reward.shape[1]), np.float64)


def _check_weights(weight: Floats, log_weight: Floats) -> None:
    bad = np.flatnonzero(~np.isfinite(weight).all(1))
    if len(bad):
        episode = int(bad[0])
        step = int(np.argmax(log_weight[episode]))
        largest = log_weight[episode, step]
        raise NonFiniteError(
            f"importance weights overflow in episode {episode}: exp({largest:.6g}) at step {step}",
            hint="the policy differs too much from the one that acted: use wis or fqe, or shorter"
            " episodes",
            context={"episode": episode, "step": step},
        )
