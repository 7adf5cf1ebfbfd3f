"""The forms of a search space."""

from __future__ import annotations

import pytest

from dicore.errors import UsageError
from dicore_tools.tuning.space import Dimension, combinations, parse_space


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=log(1e-5, 1e-2)", Dimension("a.b", "log", (1e-5, 1e-2))),
        ("a=uniform(-1,1)", Dimension("a", "uniform", (-1.0, 1.0))),
        ("a=int(1,5)", Dimension("a", "int", (1.0, 5.0))),
        ("a=logint(16,512)", Dimension("a", "logint", (16.0, 512.0))),
        ("a=32|64", Dimension("a", "choice", values=(32, 64))),
        ("a=choice(relu, tanh)", Dimension("a", "choice", values=("relu", "tanh"))),
        ("a=[64,64]|[128]", Dimension("a", "choice", values=([64, 64], [128]))),
        ("a=True|null", Dimension("a", "choice", values=(True, None))),
    ],
)
def test_forms(text: str, expected: Dimension) -> None:
    (found,) = parse_space([text])
    assert found == expected
    assert parse_space([found.text]) == (expected,)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "no search space"),
        (["a"], "expected option=values"),
        (["=1|2"], "expected option=values"),
        (["a=1"], "one value is no choice"),
        (["a=log(0,1)"], "above 0"),
        (["a=log(1,1)"], "below the second"),
        (["a=uniform(0,inf)"], "finite"),
        (["a=uniform(0)"], "two finite bounds"),
        (["a=int(0.5,2)"], "whole numbers"),
        (["a=uniform(x,1)"], "not numbers"),
        (["a=1|2", "a=3|4"], "given twice"),
    ],
)
def test_other_forms_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_space(texts)


def test_a_grid_has_all_combinations_once() -> None:
    space = parse_space(["a=1|2", "b=int(3,5)"])
    assert combinations(space) == [{"a": a, "b": b} for a in (1, 2) for b in (3, 4, 5)]
    with pytest.raises(UsageError, match="--grid: c has no list of values"):
        combinations(parse_space(["c=uniform(0,1)"]))
