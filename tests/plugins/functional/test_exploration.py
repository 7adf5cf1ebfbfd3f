"""Exploration: epsilon schedules, and actions selected alike on arrays and tensors."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dicore.errors import ActionError, SchemaError, UsageError
from dicore_plugins.functional.exploration import (
    allowed,
    any_of,
    eps_greedy,
    get_epsilon_greedy_fn,
    get_piecewise_schedule,
    get_schedule,
    greedy,
    proportional,
    softmax,
    uniform,
)
from dicore_plugins.functional.td import legal


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


@pytest.mark.parametrize(
    ("type_", "wanted"),
    [
        ("constant", [8, 8, 8, 8]),
        ("linear", [8, 6, 4, 4]),
        ("exp", [8, 4 + 4 * math.exp(-0.5), 4 + 4 * math.exp(-1), 4 + 4 * math.exp(-3)]),
        ("cosine", [8, 6, 4, 4]),
    ],
)
def test_schedules_by_hand(type_: Any, wanted: list[float]) -> None:
    schedule = get_schedule(type_, 8, 4, 100)
    assert [schedule(x) for x in (0, 50, 100, 300)] == pytest.approx(wanted)
    assert schedule(-5) == 8
    assert schedule(1e30) == pytest.approx(4 if type_ != "constant" else 8)
    assert get_schedule(type_, 8, length=100)(50) == 8


def test_a_cosine_is_flat_at_its_ends() -> None:
    schedule = get_schedule("cosine", 1.0, 0.0, 100)
    assert schedule(1) > 0.999
    assert schedule(99) < 0.001
    assert schedule(25) == pytest.approx((1 + math.sqrt(0.5)) / 2)


def test_a_piecewise_schedule_interpolates() -> None:
    schedule = get_piecewise_schedule([(0, 1.0), (10, 0.5), (30, 0.1)])
    found = [schedule(x) for x in (-1, 0, 5, 10, 20, 30, 99)]
    assert found == pytest.approx([1, 1, 0.75, 0.5, 0.3, 0.1, 0.1])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: get_schedule("step", 1, 0, 5), "unknown schedule 'step'; expected constant"),  # type: ignore[arg-type]
        (lambda: get_schedule("linear", 1, 0, 0), "length of a schedule must be > 0"),
        (lambda: get_schedule("linear", 1, 0, math.nan), "length"),
        (lambda: get_schedule("exp", math.inf, 0, 5), "finite values"),
        (lambda: get_piecewise_schedule([]), "rising x"),
        (lambda: get_piecewise_schedule([(1, 0), (1, 2)]), "rising x"),
        (lambda: get_piecewise_schedule([(1, math.nan)]), "finite"),
    ],
)
def test_bad_general_schedules_are_refused(call: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        call()


sizes = st.tuples(st.integers(1, 5), st.integers(1, 6))


@st.composite
def cases(draw: Any) -> tuple[Any, Any, Any, Any]:
    """Draws logits, a mask that allows something in each row, coins and noise."""
    rows, actions = draw(sizes)
    logit = draw(hnp.arrays(np.float32, (rows, actions), elements=st.floats(-5, 5, width=32)))
    mask = draw(hnp.arrays(np.bool_, (rows, actions)))
    mask[
        np.arange(rows), draw(hnp.arrays(np.int64, rows, elements=st.integers(0, actions - 1)))
    ] = True
    noise = hnp.arrays(np.float64, rows, elements=st.floats(0, 1, exclude_max=True))
    return logit, mask, draw(noise), draw(noise)


@given(cases(), st.booleans(), st.floats(0, 1))
def test_arrays_and_tensors_choose_alike(case: Any, masked: bool, eps: float) -> None:
    logit, mask, coin, noise = case
    mask = mask if masked else None
    t_mask = torch.from_numpy(mask) if masked else None
    t_logit, t_coin, t_noise = map(torch.from_numpy, (logit, coin, noise))

    choices = [
        (greedy(logit, mask), greedy(t_logit, t_mask)),
        (any_of(logit, noise, mask), any_of(t_logit, t_noise, t_mask)),
        (
            eps_greedy(logit, eps, coin, noise, mask),
            eps_greedy(t_logit, eps, t_coin, t_noise, t_mask),
        ),
    ]
    for array, tensor in choices:
        assert array.dtype == np.int64
        assert tensor.dtype == torch.int64
        assert array.tolist() == tensor.tolist()
        assert ((array >= 0) & (array < logit.shape[1])).all()
        if mask is not None:
            assert mask[np.arange(len(mask)), array].all()
    np.testing.assert_allclose(softmax(logit, 2.0, mask), softmax(t_logit, 2.0, t_mask), atol=1e-12)


@given(cases())
def test_greedy_takes_the_first_of_the_best_allowed(case: Any) -> None:
    logit, mask, *_ = case
    for row, choice in enumerate(greedy(logit, mask)):
        options = [a for a in range(logit.shape[1]) if mask[row, a]]
        assert choice == max(options, key=lambda a: (logit[row, a], -a))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any), st.integers(0, 10**6))
def test_proportional_is_a_running_sum(weights: list[int], at: int) -> None:
    total = sum(weights)
    noise = (at % (total * 100) + 0.5) / (total * 100)
    want = next(a for a in range(len(weights)) if noise * total < sum(weights[: a + 1]))
    got = proportional(np.array([weights], np.float64), np.array([noise]))
    assert got.tolist() == [want]


def test_the_ends_of_the_noise_stay_inside() -> None:
    """Neither 0 nor the largest number below 1 may choose what is not allowed."""
    weight = np.array([[0.0, 1.1, 0.7, 0.0]] * 2)
    assert proportional(weight, np.array([0.0, np.nextafter(1, 0)])).tolist() == [1, 2]
    for actions in (1, 2, 3, 7, 1000):
        logit = np.zeros((1, actions), np.float32)
        assert any_of(logit, np.array([np.nextafter(1, 0)])).tolist() == [actions - 1]


def test_a_mask_must_fit_and_allow_something() -> None:
    logit = np.zeros((2, 3), np.float32)
    with pytest.raises(ActionError, match="row 1 of action_mask"):
        allowed(np.array([[1, 0, 0], [0, 0, 0]]), logit)
    with pytest.raises(SchemaError, match=r"shape \(3,\), the logits have shape \(2, 3\)"):
        allowed(np.ones(3), logit)
    assert allowed(torch.ones(2, 3), logit).dtype == np.bool_
    assert allowed(np.ones((2, 3), np.int8), torch.zeros(2, 3)).dtype == torch.bool


@pytest.mark.parametrize("like", [np.zeros(1), torch.zeros(1)], ids=["array", "tensor"])
def test_noise_comes_from_the_generator_given(like: Any) -> None:
    for make in (np.random.default_rng, lambda seed: torch.Generator().manual_seed(seed)):
        first, again, other = (uniform(make(seed), (2, 3), like) for seed in (1, 1, 2))
        assert type(first) is type(like)
        assert first.tolist() == again.tolist() != other.tolist()
        assert tuple(first.shape) == (2, 3)
    a, b = (uniform(np.random.default_rng(3), (4,), each) for each in (np.zeros(1), torch.zeros(1)))
    assert a.tolist() == b.tolist()


@pytest.mark.parametrize("like", [np.asarray, torch.tensor])
def test_legal_values_are_the_least_where_a_mask_forbids(like: Any) -> None:
    q, mask = like([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), like([[1, 0], [0, 1], [0, 0]])
    least, plain = -1e8, {"seen": q}
    assert legal(q, plain) is q
    assert legal(q, q) is q
    found = legal(q, {"action_mask": mask})
    assert type(found) is type(q)
    assert found.tolist() == [[1, least], [least, 4], [5, 6]]  # a terminal one may forbid all
    both = like([[[1, 0], [1, 1]], [[0, 1], [1, 0]], [[1, 1], [0, 1]]])
    for masks in (both, [both[:, 0], both[:, 1]], (both[:, 0], both[:, 1])):
        one, two = legal([q, q], {"action_mask": masks})
        assert one.tolist() == [[1, least], [least, 4], [5, 6]]
        assert two.tolist() == [[1, 2], [3, least], [least, 6]]
