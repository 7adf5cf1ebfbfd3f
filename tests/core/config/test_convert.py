"""RELIABILITY F02: nothing is rounded or guessed."""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicore.config.convert import Mismatch, convert, is_leaf_type, parse_value, type_name


class Colour(enum.IntEnum):
    RED = 3


class Name(enum.StrEnum):
    DQN = "dqn"


@pytest.mark.parametrize(
    ("value", "hint", "wanted"),
    [
        (3, int, 3),
        (Colour.RED, int, 3),
        (np.int32(3), int, 3),
        (np.array(3), int, 3),
        (3, float, 3.0),
        (0.5, float, 0.5),
        (np.float32(0.5), float, 0.5),
        ("1e-3", float, 1e-3),
        ("-2.5E+3", float, -2500.0),
        (".5", float, 0.5),
        ("inf", float, math.inf),
        ("-.inf", float, -math.inf),
        (True, bool, True),
        (np.bool_(False), bool, False),
        ("a", str, "a"),
        (Name.DQN, str, "dqn"),
        (np.str_("a"), str, "a"),
        (np.str_("a\0"), Any, "a\0"),
        (None, type(None), None),
        (None, int | None, None),
        (3, int | None, 3),
        (3, float | None, 3.0),
        ("1e-3", float | str, "1e-3"),
        (3, int | float, 3),
        (3.0, int | float, 3.0),
        ([1, 2], list[int], [1, 2]),
        ((1, 2), list[int], [1, 2]),
        ([1, 2], tuple[int, ...], (1, 2)),
        ([1, "a"], tuple[int, str], (1, "a")),
        ([], tuple[int, ...], ()),
        ([1], Sequence[int], (1,)),
        ([1, "x", None], list, [1, "x", None]),
        ([84, 84], int | tuple[int, ...], (84, 84)),
        ({"a": 1}, dict[str, float], {"a": 1.0}),
        ({"a": np.int64(1)}, Mapping[str, Any], {"a": 1}),
        ({"a": 1}, dict[str, Any] | list[Any], {"a": 1}),
        ("x", Literal["x", "y"], "x"),
        (parse_value("none"), Literal["all", "none"], "none"),
        (2, Annotated[int, "seconds"], 2),
        ([(1, {"a": np.float64(2.0)})], Any, [(1, {"a": 2.0})]),
    ],
)
def test_a_value_of_its_type_passes_as_that_exact_type(value: Any, hint: Any, wanted: Any) -> None:
    converted = convert(value, hint)
    assert converted == wanted
    assert type(converted) is type(wanted)


@pytest.mark.parametrize(
    ("value", "hint", "said"),
    [
        (32.7, int, "expected int, got float 32.7"),
        (32.0, int, "expected int, got float 32.0"),
        ("32", int, "expected int, got str '32'"),
        ("1e-3", int, "expected int, got str '1e-3'"),
        ("1.5e3", int, "expected int, got str '1.5e3'"),
        ("1000", int, "expected int, got str '1000'"),
        (True, int, "expected int, got bool True"),
        (np.bool_(True), int, "expected int, got bool True"),
        (np.float64(1.0), int, "expected int, got float 1.0"),
        (True, float, "expected float, got bool True"),
        ("fast", float, "expected float, got str 'fast'"),
        ("1e-3 ", float, "expected float, got str '1e-3 '"),
        (10**400, float, "expected float, got int 1"),
        (1, bool, "expected bool, got int 1"),
        ("yes", bool, "expected bool, got str 'yes'"),
        (3, str, "expected str, got int 3"),
        (None, int, "expected int, got None"),
        (True, int | None, "expected int or None, got bool True"),
        (0, type(None), "expected None, got int 0"),
        (3, list[int], "expected list[int], got int 3"),
        ("ab", list[str], "expected list[str], got str 'ab'"),
        ([1], tuple[int, int], "expected tuple[int, int], got 1 items: list [1]"),
        ([1], dict[str, int], "expected dict[str, int], got list [1]"),
        (np.zeros(2), list[float], "expected list[float], got ndarray array([0., 0.])"),
        ("z", Literal["x", "y"], "expected one of 'x', 'y', got 'z'"),
        (True, Literal[1, 2], "expected one of 1, 2, got True"),
        ("x", int | list[int], "expected int or list[int], got str 'x'"),
        (3, Random := type("Random", (), {}), "expected Random, got int 3"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(value: Any, hint: Any, said: str) -> None:
    with pytest.raises(Mismatch) as caught:
        convert(value, hint, "at")
    ((path, message),) = caught.value.findings
    assert path == "at"
    assert message.startswith(said)


def test_every_wrong_item_of_a_container_is_named() -> None:
    with pytest.raises(Mismatch) as caught:
        convert([1, "x", 2, None], list[int], "policy.hidden")
    assert caught.value.findings == (
        ("policy.hidden[1]", "expected int, got str 'x'"),
        ("policy.hidden[3]", "expected int, got None"),
    )
    with pytest.raises(Mismatch) as caught:
        convert({"a": "x", 3: 1}, dict[str, int], "p")
    assert caught.value.findings == (
        ("p.a", "expected int, got str 'x'"),
        ("p key", "expected str, got int 3"),
    )


def test_of_a_union_the_only_fitting_container_says_what_is_wrong_inside() -> None:
    with pytest.raises(Mismatch) as caught:
        convert([1, "x"], int | list[int] | None, "p")
    assert caught.value.findings == (("p[1]", "expected int, got str 'x'"),)


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(Mismatch) as caught:
        convert("x" * 1000, int)
    assert len(caught.value.findings[0][1]) < 130


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_containers_are_copied_and_inputs_stay(value: Any) -> None:
    before = repr(value)
    converted = convert(value, Any)
    assert converted == value
    assert repr(value) == before
    if isinstance(value, list):
        assert converted is not value


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int | None, "int or None"),
        (tuple[int, ...], "tuple[int, ...]"),
        (dict[str, list[float]], "dict[str, list[float]]"),
        (Any, "Any"),
        (Annotated[int, 3], "int"),
    ],
)
def test_types_are_worded_as_they_are_written(hint: Any, words: str) -> None:
    assert type_name(hint) == words


@pytest.mark.parametrize("hint", [int, str | None, list[int], Literal["a"], Any, dict[str, Any]])
def test_a_config_can_hold(hint: Any) -> None:
    assert is_leaf_type(hint)


@pytest.mark.parametrize("hint", [np.random.Generator | None, list[np.ndarray], object])
def test_a_config_cannot_hold(hint: Any) -> None:
    assert not is_leaf_type(hint)


def test_thousands_of_brackets_are_no_structure() -> None:
    """YAML's parser takes minutes for them."""
    began = time.monotonic()
    assert parse_value("[" * 9000) == "[" * 9000
    with pytest.raises(ValueError, match="expected the node content"):
        parse_value("[" * 300)
    assert time.monotonic() - began < 60
