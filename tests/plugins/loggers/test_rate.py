"""The rate of progress lines against what a fake clock makes of it."""

from __future__ import annotations

import pytest

from dicore_plugins.loggers.console import RecentRate


def test_a_fast_beginning_is_forgotten_after_the_window() -> None:
    """10,000 steps in one second, then 100 per second."""
    rate = RecentRate(window=20.0)
    rate.mark(0.0, 0)
    shown = {}
    for tenth in range(1, 400):
        now = tenth / 10
        count = int(min(now, 1.0) * 10_000 + max(now - 1.0, 0.0) * 100)
        rate.mark(now, count)
        shown[now] = rate.per_second(now, count)
    assert shown[1.0] == 10_000
    assert shown[11.0] == pytest.approx(11_000 / 11)
    assert shown[23.0] == pytest.approx(100)
    assert shown[39.0] == pytest.approx(100)


def test_the_window_is_as_long_as_said() -> None:
    """Counts rise by the square of the time: the mean slope names where the window began."""
    rate = RecentRate(window=20.0)
    for second in range(200):
        rate.mark(float(second), second**2)
    assert rate.per_second(199.0, 199**2) == 199 + 179


def test_a_pause_longer_than_the_window_counts() -> None:
    rate = RecentRate(window=20.0)
    for second in range(30):
        rate.mark(float(second), 10 * second)
    rate.mark(129.0, 300)
    assert rate.per_second(129.0, 300) == pytest.approx(10 / 100)


def test_without_a_mark_or_after_forgetting_the_rate_is_zero() -> None:
    rate = RecentRate()
    assert rate.per_second(5.0, 10) == 0
    rate.mark(5.0, 10)
    assert rate.per_second(5.0, 10) == 0
    assert rate.per_second(7.0, 30) == 10
    rate.forget()
    assert rate.per_second(8.0, 40) == 0


def test_few_marks_are_kept_however_often_it_is_called() -> None:
    rate = RecentRate(window=20.0)
    for call in range(100_000):
        rate.mark(call / 1000, call)
    assert len(rate._marks) <= 22
    assert rate.per_second(99.999, 99_999) == pytest.approx(1000, rel=1e-3)
