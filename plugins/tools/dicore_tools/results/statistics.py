"""Interquartile means with bootstrap intervals (Agarwal et al. 2021, arXiv:2108.13264).

Shapes: R runs of a task, B bootstrap samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dicore.errors import UsageError

__all__ = ["Estimate", "interquartile_mean", "iqm_interval", "score_profile"]

_CHUNK = 1 << 22
"""Most scores that are resampled at once."""


class Estimate(NamedTuple):
    """An interquartile mean and its confidence interval."""

    value: float
    low: float
    high: float


def interquartile_mean(scores: npt.ArrayLike, axis: int = -1) -> Any:
    """Returns the mean of the middle half of the scores.

    Of n scores, the n // 4 lowest and highest are left out, as `scipy.stats.trim_mean` does.

    Args:
        scores: float64 [..., R].
        axis: Axis of the scores.

    Raises:
        UsageError: there are no scores.
    """
    values = np.moveaxis(np.asarray(scores, np.float64), axis, -1)
    count = values.shape[-1]
    if not count:
        raise UsageError("an interquartile mean needs at least one score")
    cut = count // 4
    if cut:
        values = np.partition(values, (cut, count - cut - 1), axis=-1)[..., cut : count - cut]
    return values.mean(-1)


def iqm_interval(
    scores: Sequence[npt.ArrayLike],
    *,
    confidence: float = 0.95,
    samples: int = 20_000,
    seed: int = 0,
) -> Estimate:
    """Returns the interquartile mean over all runs of all tasks, with its confidence interval.

    The interval is the percentile interval of a stratified bootstrap: runs are resampled with
    replacement within each task.

    Args:
        scores: Scores of each task, float64 [R]; tasks may have different numbers of runs.
        confidence: Probability that the interval covers the value.
        samples: Number of bootstrap samples, B.
        seed: Random seed of the resampling.

    Raises:
        UsageError: a task has no scores, or a score is not finite.
    """
    tasks = [np.asarray(each, np.float64).reshape(-1) for each in scores]
    if not tasks or any(not len(task) for task in tasks):
        raise UsageError("an interval needs at least one score of each task")
    together = np.concatenate(tasks)
    if not np.isfinite(together).all():
        raise UsageError("an interval needs finite scores")
    rng = np.random.default_rng(seed)
    rows = max(1, _CHUNK // len(together))
    found = []
    for start in range(0, samples, rows):
        count = min(rows, samples - start)
        drawn = [task[rng.integers(len(task), size=(count, len(task)))] for task in tasks]
        found.append(interquartile_mean(np.concatenate(drawn, axis=1)))
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(found), [tail, 1 - tail])
    return Estimate(float(interquartile_mean(together)), float(low), float(high))


def score_profile(
    scores: Sequence[npt.ArrayLike],
    taus: npt.NDArray[np.float64],
    *,
    confidence: float = 0.95,
    samples: int = 2_000,
    seed: int = 0,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns the share of runs with a score above each tau, and its pointwise interval.

    The profile is the mean over the tasks of the shares of their runs, so that a task with more
    runs does not count more (Agarwal et al. 2021, section 4.2).

    Args:
        scores: Scores of each task, float64 [R]; tasks may have different numbers of runs.
        taus: float64 [T].
        confidence: Probability that the interval covers the value, for each tau.
        samples: Number of bootstrap samples, B; runs are resampled within each task.
        seed: Random seed of the resampling.

    Returns:
        Shares, lower and upper ends: float64 [T] each.

    Raises:
        UsageError: a task has no scores, or a score is not finite.
    """
    tasks = [np.asarray(each, np.float64).reshape(-1) for each in scores]
    if not tasks or any(not len(task) or not np.isfinite(task).all() for task in tasks):
        raise UsageError("a profile needs at least one finite score of each task")
    rng = np.random.default_rng(seed)
    share, drawn = np.zeros(len(taus)), np.zeros((samples, len(taus)))
    for task in tasks:
        above = (task[:, None] > taus).astype(np.float64)  # [R, T]
        share += above.mean(0)
        counts = rng.multinomial(len(task), np.full(len(task), 1 / len(task)), samples)
        drawn += counts @ above / len(task)
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn / len(tasks), [tail, 1 - tail], axis=0)
    return share / len(tasks), low, high
