"""FEATURES E5 and E6: the user wins, dicts recurse, inputs stay as they were."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicore.config.paths import combine, merge

LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=12,
)
DICTS = st.dictionaries(st.sampled_from("abc"), TREES, max_size=3)


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (1, 2, 2),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {"a": {"x": 1, "y": 3}}),
        ({"a": [1, 2, 3]}, {"a": [4]}, {"a": [4]}),
        ({"a": [{"x": 1}]}, {"a": [{"y": 1}]}, {"a": [{"y": 1}]}),
        ({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": {"x": 1}}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({"a": None}, {"a": 1}, {"a": 1}),
        ({"a": {"x": 1}}, {"a": None}, {"a": None}),
        ({"a": {"x": 1}}, {"a": {}}, {"a": {"x": 1}}),
        ({"a": (1, 2)}, {"a": (3,)}, {"a": (3,)}),
    ],
)
def test_merge_table(low: Any, high: Any, wanted: Any) -> None:
    assert merge(low, high) == wanted


@given(DICTS, DICTS)
def test_merge_leaves_its_inputs_and_shares_no_memory_with_them(low: Any, high: Any) -> None:
    before = copy.deepcopy((low, high))
    merged = merge(low, high)
    _spoil(merged)
    assert (low, high) == before


@given(DICTS, DICTS, DICTS)
def test_merging_three_layers_does_not_depend_on_the_grouping(a: Any, b: Any, c: Any) -> None:
    # a list or scalar between two dicts cuts off the lowest, in either grouping of dicts only
    if _dicts_meet_dicts(a, b) and _dicts_meet_dicts(b, c) and _dicts_meet_dicts(a, c):
        assert merge(merge(a, b), c) == merge(a, merge(b, c))


@given(DICTS)
def test_an_empty_layer_changes_nothing(tree: Any) -> None:
    assert merge(tree, {}) == tree == merge({}, tree)
    assert merge(tree, tree) == tree


def test_equal_ranks_must_agree() -> None:
    said: list[Any] = []
    joined = combine(
        {"type": "dqn", "a": 1, "b": {"x": 1}},
        {"a": 2, "b": {"x": 1, "y": 2}, "c": 3},
        "policy",
        lambda *found: said.append(found),
    )
    assert said == [("policy.a", 1, 2)]
    assert joined == {"type": "dqn", "a": 1, "b": {"x": 1, "y": 2}, "c": 3}


def test_a_name_and_a_node_are_the_same_thing() -> None:
    said: list[Any] = []
    assert combine("dqn", {"a": 1}, "policy", lambda *f: said.append(f)) == {"type": "dqn", "a": 1}
    assert combine({"a": 1}, "dqn", "policy", lambda *f: said.append(f)) == {"type": "dqn", "a": 1}
    assert combine({"a": 1}, None, "policy", lambda *f: said.append(f)) == {"a": 1}
    assert said == []
    combine("dqn", "ppo", "policy", lambda *f: said.append(f))
    combine(1, True, "x", lambda *f: said.append(f))
    assert said == [("policy", "dqn", "ppo"), ("x", 1, True)]


def _spoil(value: Any) -> None:
    for item in list(value.values() if isinstance(value, dict) else value):
        if isinstance(item, dict | list):
            _spoil(item)
    value.clear()


def _dicts_meet_dicts(low: Any, high: Any) -> bool:
    if isinstance(low, dict) is not isinstance(high, dict):
        return False
    if not isinstance(low, dict):
        return True
    return all(_dicts_meet_dicts(low[key], high[key]) for key in low.keys() & high.keys())
