"""Interquartile mean and stratified bootstrap, against scipy and against the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore.errors import UsageError
from dicore_tools.results.statistics import interquartile_mean, iqm_interval, score_profile


@pytest.fixture
def stats() -> Any:
    """Imported by the process that runs these tests, not by each that collects them."""
    from scipy import stats

    return stats


def test_the_numbers_of_rliable() -> None:
    """Those of `metrics_test.py` of github.com/google-research/rliable."""
    assert interquartile_mean(np.ravel([[1, 2], [2, 2], [1, 1], [2, 1]])) == 1.5
    assert interquartile_mean(np.ravel([[1, 1], [2, 2], [3, 3]])) == 2


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 50])
def test_the_middle_half_is_that_of_scipy(count: int, stats: Any) -> None:
    scores = np.random.default_rng(count).normal(size=(4, count))
    before = scores.copy()
    wanted = stats.trim_mean(scores, 0.25, axis=1)
    np.testing.assert_allclose(interquartile_mean(scores), wanted, rtol=1e-12)
    np.testing.assert_allclose(interquartile_mean(scores.T, axis=0), wanted, rtol=1e-12)
    assert np.array_equal(scores, before)


def test_an_interval_of_one_task_is_that_of_scipy(stats: Any) -> None:
    scores = np.random.default_rng(0).gamma(2.0, size=20)
    found = iqm_interval([scores])
    wanted = stats.bootstrap(
        (scores,), lambda x, axis: stats.trim_mean(x, 0.25, axis=axis), n_resamples=20_000,
        method="percentile", rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    assert found.value == pytest.approx(stats.trim_mean(scores, 0.25))
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=0.02)


def test_runs_are_resampled_within_their_task(stats: Any) -> None:
    """By a loop over the definition; without strata, the interval would span both tasks."""
    rng = np.random.default_rng(3)
    tasks = [rng.normal(0, 0.1, 6), rng.normal(100, 0.1, 5)]
    found = iqm_interval(tasks, samples=5_000)
    means = []
    for _ in range(5_000):
        drawn = [[task[rng.integers(len(task))] for _ in task] for task in tasks]
        means.append(stats.trim_mean(np.concatenate(drawn), 0.25))
    low, high = np.percentile(means, [2.5, 97.5])
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.02)
    assert found.high - found.low < 1
    assert found == iqm_interval(tasks, samples=5_000), "the same seed, the same interval"


def test_equal_scores_have_no_width() -> None:
    assert iqm_interval([[5.0, 5.0, 5.0]]) == (5.0, 5.0, 5.0)


@pytest.mark.parametrize("scores", [[], [[]], [[1.0], []], [[1.0, float("nan")]]])
def test_missing_scores_are_refused(scores: list[list[float]]) -> None:
    with pytest.raises(UsageError, match="an interval needs"):
        iqm_interval(scores)


def test_no_scores_have_no_mean() -> None:
    with pytest.raises(UsageError, match="at least one score"):
        interquartile_mean([])


def test_a_profile_is_the_mean_share_over_tasks() -> None:
    """By hand: one task of two runs, one of four; a task with more runs does not count more."""
    taus = np.array([-1.0, 0.0, 0.5, 1.0])
    share, low, high = score_profile([[0.2, 0.6], [0.1, 0.7, 0.9, 1.0]], taus)
    assert share.tolist() == [1.0, 1.0, (0.5 + 0.75) / 2, 0.0]
    assert low[:2].tolist() == high[:2].tolist() == [1.0, 1.0]
    assert low[2] < share[2] < high[2]
    assert (low[3], high[3]) == (0.0, 0.0)


def test_the_band_of_a_profile_is_that_of_a_binomial(stats: Any) -> None:
    scores = [np.arange(40) / 40]
    share, low, high = score_profile(scores, np.array([0.5]), samples=20_000)
    assert share[0] == 19 / 40
    wanted = stats.binom.ppf([0.025, 0.975], 40, 19 / 40) / 40
    assert [low[0], high[0]] == pytest.approx(wanted, abs=0.026)


@pytest.mark.parametrize("scores", [[], [[]], [[float("nan")]], [[1.0], []]], ids=str)
def test_a_profile_needs_finite_scores(scores: list[list[float]]) -> None:
    with pytest.raises(UsageError, match="a profile needs"):
        score_profile(scores, np.array([0.0]))
