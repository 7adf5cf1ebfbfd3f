"""FEATURES E14: what was written is what is read, in JSON and in Python."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicore.data.json_codec import decode, dumps, encode, loads, scalar_type
from dicore_tools.config_formats.python_form import python_source

NUMPY = (
    st.sampled_from(
        [np.float32, np.float64, np.float16, np.int8, np.int64, np.uint16, np.bool_]
    ).flatmap(lambda kind: st.integers(0, 100).map(kind) | st.sampled_from([0, 1]).map(kind))
    | st.floats(width=32).map(np.float32)
    | st.text(max_size=5).map(np.str_)
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[]))
    | st.sampled_from([math.inf, -math.inf, math.nan, -0.0, "'\"\n\\", "naïve ☃ 𝄞", "__tuple__"])
    | st.just(np.str_("x\0"))
    | NUMPY
)
KEYS = st.text(max_size=6) | st.sampled_from(
    ["__tuple__", "__float__", "__dict__", "__numpy__", "class", "self", "a b", "é"]
)
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


def same(first: Any, second: Any) -> bool:
    """Equal to the bit and the type; NaN is NaN."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return list(map(repr, first)) == list(map(repr, second)) and all(
            same(first[key], second[key]) for key in first
        )
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, float | np.floating):
        return bool(
            (math.isnan(first) and math.isnan(second))
            or (first == second and math.copysign(1, first) == math.copysign(1, second))
        )
    if isinstance(first, str):
        return str.__str__(first) == str.__str__(second)
    return bool(first == second)


@given(TREES)
def test_json_gives_back_exactly_what_was_written(tree: Any) -> None:
    text = dumps(tree)
    assert text.isascii()
    assert same(loads(text), tree)


@pytest.mark.parametrize("formatted", [False, True])
@given(tree=TREES)
def test_python_gives_back_exactly_what_was_written(formatted: bool, tree: Any) -> None:
    source = python_source({"main_config": tree, "other": [tree]}, "Doc.", formatted=formatted)
    names: dict[str, Any] = {}
    exec(compile(source, "total_config.py", "exec"), names)
    assert same(names["main_config"], tree)
    assert same(names["other"], [tree])


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, b"x", np.zeros(2), np.longdouble(1), 1j, np.complex64(1), [{"a": {1}}]],
)
def test_what_is_no_plain_data_is_refused(value: Any) -> None:
    if not isinstance(value, np.ndarray):
        with pytest.raises(TypeError, match="is not plain data"):
            dumps(value)
    with pytest.raises(TypeError, match="is not plain data"):
        python_source({"x": value}, "Doc.", formatted=True)


def test_the_place_of_what_is_refused_is_said() -> None:
    with pytest.raises(TypeError, match=r"^\$.policy.hook\[1\]: set"):
        dumps({"policy": {"hook": [1, {2}]}})


def test_it_is_valid_json_for_other_readers() -> None:
    text = dumps({"a": math.inf, "b": (1, 2), "c": np.float32(0.5), 3: None})

    def refuse(word: str) -> None:
        raise AssertionError(word)

    assert json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    "text",
    [
        '{"__tuple__": 3}',
        '{"__float__": "x"}',
        '{"__numpy__": ["object_", 1]}',
        '{"__numpy__": ["load", "x.npy"]}',
        '{"__numpy__": ["get_include", "x"]}',
        '{"__numpy__": 3}',
        '{"__dict__": [1]}',
        '{"__array__": ["object", [1]]}',
        '{"__array__": ["float32", {}]}',
        '{"__array__": 3}',
        '{"__float__": [1]}',
        "{",
    ],
)
def test_tags_used_wrongly_are_errors_and_call_nothing(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(np, "get_include", lambda: pytest.fail("was called"))
    with pytest.raises(ValueError, match=r"."):
        loads(text)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64", "bool"])
def test_arrays_of_knobs_survive_json(dtype: str) -> None:
    array = np.array([[0, 1], [1, 1]], dtype=dtype)
    again = loads(dumps({"a": array, "empty": np.zeros(0)}))
    assert again["a"].dtype == array.dtype
    assert (again["a"] == array).all()
    assert again["empty"].shape == (0,)
    for odd in (np.zeros((0, 3)), np.array([object()]), np.array(["x"]), np.zeros(2, complex)):
        with pytest.raises(TypeError, match="is not plain data"):
            dumps(odd)


@given(TREES)
def test_a_tree_of_any_parser_is_decoded_alike(tree: Any) -> None:
    assert same(decode(json.loads(json.dumps(encode(tree)))), tree)


def test_numpy_scalars_are_told_from_arrays() -> None:
    assert [scalar_type(v) for v in (np.float32(1), np.bool_(1), np.str_("a"), np.zeros(1), 1)] == [
        "float32",
        "bool_",
        "str_",
        None,
        None,
    ]


def test_the_formatted_form_reads_like_the_documents() -> None:
    tree = {"env": {"type": "pole", "stop": math.inf, "x-y": {}}, "hook": ["a" * 60, {"b": (1,)}]}
    assert python_source({"main_config": tree}, "A run.", formatted=True) == (
        '"""A run."""\n\nfrom math import inf, nan\n\nmain_config = dict(\n    env={\n'
        "        'type': 'pole',\n        'stop': inf,\n        'x-y': {},\n    },\n    hook=[\n"
        f"        '{'a' * 60}',\n        dict(\n            b=(1,),\n        ),\n    ],\n)\n"
    )
    assert "import" not in python_source({"a": "numpy. inf"}, "A run.", formatted=True)
