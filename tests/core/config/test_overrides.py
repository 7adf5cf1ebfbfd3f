"""FEATURES E5, E6 and E28: `a.b=c`, and layers that are merged."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicore.config.convert import parse_value
from dicore.config.layers import Problems, override_tree, parse_override
from dicore.config.paths import combine, merge
from dicore.errors import ConfigError
from tests.core.config.conftest import problems_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("128", 128),
        ("-3", -3),
        ("1_000", 1000),
        ("0.5", 0.5),
        ("1e-3", 1e-3),
        ("1e6", 1_000_000),
        ("1.5e6", 1.5e6),
        (".5", 0.5),
        ("inf", math.inf),
        ("-.inf", -math.inf),
        ("true", True),
        ("False", False),
        ("null", None),
        ("None", None),
        ("~", None),
        ("", ""),
        ("cartpole", "cartpole"),
        ("yes", "yes"),
        ("2024-01-01", "2024-01-01"),
        ("12:30", "12:30"),
        ("runs/a b", "runs/a b"),
        ("./my.py:Mine", "./my.py:Mine"),
        ("gymnasium:CartPole-v1", "gymnasium:CartPole-v1"),
        ("a=b", "a=b"),
        ("@home", "@home"),
        ("'128'", "128"),
        ('"true"', "true"),
        ("[1, 2.5, x]", [1, 2.5, "x"]),
        ("[1e-3, inf, null, '1']", [1e-3, math.inf, None, "1"]),
        ("{type: heap, alpha: 0.5}", {"type": "heap", "alpha": 0.5}),
        (
            '[{"type": "log_show", "freq": 3}, save_ckpt]',
            [{"type": "log_show", "freq": 3}, "save_ckpt"],
        ),
        ("[]", []),
    ],
)
def test_a_value_is_read_as_yaml_would_without_its_surprises(text: str, value: Any) -> None:
    path, got = parse_override(f"policy.x={text}")
    assert path == "policy.x"
    assert got == value
    assert type(got) is type(value)


def test_nan_is_read_so_that_the_option_can_refuse_it() -> None:
    assert math.isnan(parse_value("nan"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("policy.nstep", "policy.nstep: expected PATH=VALUE, as in policy.learn.batch_size=128"),
        ("=3", "=3: invalid option path ''; expected PATH=VALUE"),
        ("a..b=3", "a..b=3: invalid option path 'a..b'; expected PATH=VALUE"),
        ("a b=3", "a b=3: invalid option path 'a b'; expected PATH=VALUE"),
        (
            "hook[0].freq=3",
            "hook[0].freq: cannot set single items of a list; give hook=[",
        ),
        ("a=[1, 2", "a: cannot read '[1, 2': "),
        ("a='x", 'a: cannot read "\'x": '),
    ],
)
def test_what_is_no_override_is_told_so(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_override(text)
    assert caught.value.message.startswith(said)


@given(st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none())
def test_what_python_prints_is_read_back(value: Any) -> None:
    got = parse_value(repr(value))
    assert got == value
    assert type(got) is type(value)


@given(st.text())
def test_any_text_is_a_value_or_a_clear_error(text: str) -> None:
    problems = Problems()
    tree = override_tree([f"a={text}"], problems)
    assert ("a" in tree) is not bool(problems.found)


def tree_of(*overrides: str) -> dict[str, Any]:
    problems = Problems()
    tree = override_tree(list(overrides), problems)
    problems.raise_if_any()
    return tree


def test_the_later_of_two_counts_and_a_name_keeps_the_options_beside_it() -> None:
    assert tree_of("a.b=1", "a.b=2") == {"a": {"b": 2}}
    assert tree_of("env=cartpole", "env.stop_value=3") == {
        "env": {"type": "cartpole", "stop_value": 3}
    }
    assert tree_of("env.stop_value=3", "env=cartpole") == {
        "env": {"type": "cartpole", "stop_value": 3}
    }
    assert tree_of("a.b=1", "a={c: 2}") == {"a": {"b": 1, "c": 2}}
    assert tree_of("a=1", "a.b=2") == {"a": {"b": 2}}


def test_a_json_object_holds_several() -> None:
    assert tree_of('{"a.b": 1, "c": {"d": [2]}}', "a.b=3") == {"a": {"b": 3}, "c": {"d": [2]}}
    with pytest.raises(ConfigError, match="not a JSON object"):
        tree_of("{a: 1}")


def test_overrides_reach_the_config(build: Any) -> None:
    compiled = build(
        overrides=["policy.learn.batch_size=128", "env.stop_value=inf", "exp_name=null"]
    )
    assert compiled.policy.learn.batch_size == 128
    assert compiled.env.stop_value == math.inf
    assert compiled.exp_name is None
    assert compiled.origin["env.stop_value"] == "command line"


def test_unknown_paths_are_told_what_was_meant(build: Any) -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'policy.learn.batch_size'"):
        build(overrides=["policy.bach_size=3"])


def test_a_callers_dict_stays_as_it_was(build: Any) -> None:
    overrides = {"policy.learn": {"free": {"z": [1]}}, "policy.nstep": 2}
    compiled = build(overrides=overrides)
    compiled.policy.learn.free["z"].append(2)
    assert overrides == {"policy.learn": {"free": {"z": [1]}}, "policy.nstep": 2}
    assert compiled.policy.nstep == 2


# ---- merge: the user wins, dicts recurse, inputs stay as they were


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


def test_one_override_need_not_be_in_a_list(build: Any) -> None:
    assert build(overrides="policy.nstep=3").cfg == build(overrides=["policy.nstep=3"]).cfg


@pytest.mark.parametrize("wrong", [[5], [None], [b"policy.nstep=3"], {5: 3}, {None: 1}, "policy"])
def test_what_is_no_override_is_named(build: Any, wrong: Any) -> None:
    assert problems_of(build, overrides=wrong)
