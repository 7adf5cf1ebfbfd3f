"""Schedules of epsilon: the documents' numbers, and bounds for any."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicore.errors import UsageError
from dicore_plugins.functional import get_epsilon_greedy_fn


def test_the_documents_numbers() -> None:
    exp = get_epsilon_greedy_fn(0.95, 0.1, 10000)
    linear = get_epsilon_greedy_fn(0.95, 0.1, 10000, "linear")
    assert exp(0) == 0.95
    assert exp(10000) == pytest.approx(0.41270, abs=1e-5)
    assert linear(0) == 0.95
    assert linear(5000) == pytest.approx(0.525)
    assert linear(10000) == pytest.approx(0.1)
    assert linear(20000) == pytest.approx(0.1)


@given(
    start=st.floats(0, 1),
    end=st.floats(0, 1),
    decay=st.floats(1, 1e6),
    kind=st.sampled_from(["exp", "linear"]),
    steps=st.lists(st.floats(0, 1e8), min_size=2, max_size=5),
)
def test_it_goes_one_way_and_stays_between(
    start: float, end: float, decay: float, kind: Any, steps: list[float]
) -> None:
    eps = get_epsilon_greedy_fn(start, end, decay, kind)
    values = [eps(x) for x in sorted(steps)]
    assert all(min(start, end) - 1e-9 <= value <= max(start, end) + 1e-9 for value in values)
    away = [abs(value - end) for value in values]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(away))


@pytest.mark.parametrize(
    ("args", "text"),
    [((2, 0, 1), "in"), ((1, -1, 1), "in"), ((1, 0, 0), "decay"), ((1, 0, 1, "cos"), "'cos'")],
)
def test_bad_schedules_are_refused(args: tuple[Any, ...], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        get_epsilon_greedy_fn(*args)
