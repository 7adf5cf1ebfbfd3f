"""default_collate and default_decollate: one case per rule, then round trips."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dicore.data import Timestep
from dicore.errors import SchemaError
from dicore_plugins.functional import (
    default_collate,
    default_decollate,
    to_device,
    to_list,
    to_tensor,
)

Pair = namedtuple("Pair", ["left", "right"])


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@pytest.mark.parametrize(
    ("samples", "options", "want"),
    [
        ([torch.zeros(3)] * 4, {}, torch.zeros(4, 3)),
        ([torch.ones(1)] * 4, {}, torch.ones(4)),
        ([torch.ones(1)] * 4, {"cat_1dim": False}, torch.ones(4, 1)),
        ([torch.tensor(2)] * 2, {}, torch.tensor([2, 2])),
        ([np.zeros((2, 1), np.uint8)] * 2, {}, torch.zeros(2, 2, 1, dtype=torch.uint8)),
        ([np.ones(1, np.float64)] * 2, {}, torch.ones(2, dtype=torch.float64)),
        ([np.ones(1)] * 2, {"cat_1dim": False}, torch.ones(2, 1, dtype=torch.float64)),
        ([np.float32(1.5), np.float32(2)], {}, torch.tensor([1.5, 2])),
        ([1.0, 2.5], {}, torch.tensor([1.0, 2.5])),
        ([1, 2], {}, torch.tensor([1, 2], dtype=torch.int64)),
        ([1, 2.5], {}, torch.tensor([1.0, 2.5])),
        ([True, False], {}, torch.tensor([True, False])),
        (["a", "b"], {}, ["a", "b"]),
        ([{"x": {"y": 2.0}}] * 2, {}, {"x": {"y": torch.tensor([2.0, 2.0])}}),
        ([Pair(1, 2.0), Pair(3, 4.0)], {}, Pair(torch.tensor([1, 3]), torch.tensor([2.0, 4.0]))),
        ([[1, 2.0], [3, 4.0]], {}, [torch.tensor([1, 3]), torch.tensor([2.0, 4.0])]),
        ([(1, "a"), (3, "b")], {}, [torch.tensor([1, 3]), ["a", "b"]]),
        ([{"collate_ignore_x": [1]}] * 2, {}, {"collate_ignore_x": [[1], [1]]}),
        ([{"raw": [1]}, {"raw": None}], {"ignore_prefix": ["raw"]}, {"raw": [[1], None]}),
    ],
    ids=str,
)  # fmt: skip
def test_a_rule(samples: list[Any], options: dict[str, Any], want: Any) -> None:
    assert same(default_collate(samples, **options), want)


@pytest.mark.parametrize(
    ("samples", "error", "text"),
    [
        ([], SchemaError, "cannot collate an empty list"),
        ([{"a": 1, "b": 2}, {"a": 1}], SchemaError, "sample 1 has no key 'b'"),
        ([{"o": {"a": 1}}, {"o": {}}], SchemaError, "sample 1 has no key 'a' at 'o'"),
        ([[1, 2], [3]], SchemaError, "sample 1 has 1 items; sample 0 has 2"),
        ([{"o": torch.ones(2)}, {"o": torch.ones(3)}], SchemaError, "shape at 'o'"),
        ([torch.ones(2), 3.0], SchemaError, "type"),
        ([True, 2], SchemaError, "type: bool, int"),
        ([1, "a"], SchemaError, "type: int, str"),
        ([object()], TypeError, "type object"),
        ([{"x": [object()]}], TypeError, r"at 'x\[0\]' values of type object"),
        ([None], TypeError, "NoneType"),
        ([np.array(["a"])], TypeError, "dtype <U1"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_collated_is_named(
    samples: list[Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        default_collate(samples)


def test_collate_takes_its_own_memory() -> None:
    rows = [{"x": np.zeros(2)}, {"x": np.zeros(2)}]
    default_collate(rows)["x"].fill_(7)
    assert not rows[0]["x"].any()


shapes = st.lists(st.integers(1, 3), max_size=2).map(tuple)
trees = st.recursive(
    st.builds(lambda shape, dtype: (shape, dtype), shapes, st.sampled_from(["f", "i", "b"])),
    lambda below: st.dictionaries(st.sampled_from("abcd"), below, min_size=1, max_size=3),
    max_leaves=5,
)


def tensors(tree: Any, count: int) -> Any:
    """Fills a tree of (shape, dtype) with tensors [count, ...]."""
    if isinstance(tree, dict):
        return {key: tensors(value, count) for key, value in tree.items()}
    shape, kind = tree
    numbers = torch.arange(count * int(np.prod(shape, dtype=int))).reshape(count, *shape)
    return numbers.float() if kind == "f" else numbers > 1 if kind == "b" else numbers


@settings(max_examples=60)
@given(trees.filter(lambda tree: isinstance(tree, dict)), st.integers(1, 4))
def test_decollate_then_collate_is_the_same(tree: Any, count: int) -> None:
    batch = tensors(tree, count)
    samples = default_decollate(batch)
    assert len(samples) == count
    assert same(default_collate(samples, cat_1dim=False), batch)


def test_samples_are_rows() -> None:
    batch = {"logit": torch.arange(6).reshape(3, 2), "action": torch.tensor([4, 5, 6])}
    samples = default_decollate(batch)
    assert samples[1]["logit"].tolist() == [2, 3]
    assert samples[2]["action"].item() == 6


def test_ignored_keys_are_handed_on_whole() -> None:
    states = [{"h": torch.zeros(2)}, None]
    samples = default_decollate({"x": torch.ones(2), "prev_state": states, "hold": states},
                                ignore=["prev_state", "hold"])  # fmt: skip
    assert samples[0]["prev_state"] is states[0]
    assert samples[1]["hold"] is None


def test_distributions_become_none_and_sequences_are_split() -> None:
    normal = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
    samples = default_decollate(
        {
            "dist": normal,
            "list": [torch.ones(2), torch.zeros(2, 3)],
            "pair": Pair(torch.ones(2), normal),
            "name": ["a", "b"],
        }
    )
    assert samples[0]["dist"] is None
    assert samples[1]["list"][1].shape == (3,)
    assert isinstance(samples[0]["pair"], Pair)
    assert samples[0]["pair"].right is None
    assert [sample["name"] for sample in samples] == ["a", "b"]


@pytest.mark.parametrize(
    ("batch", "error", "text"),
    [
        ({"a": torch.ones(2), "b": torch.ones(3)}, SchemaError, "length: {'a': 2, 'b': 3}"),
        ({"a": {"b": torch.tensor(1)}}, SchemaError, r"scalar at 'a\.b'"),
        ({"a": 1.0}, TypeError, "at 'a' values of type float"),
        ({}, SchemaError, "must have the same length"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_taken_apart_is_named(batch: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        default_decollate(batch)


def test_timesteps_keep_their_flags_there_and_back() -> None:
    steps = [
        Timestep(np.ones(2, np.float32) * i, float(i), i > 0, {}, truncated=i == 2)
        for i in range(3)
    ]
    batch = default_collate(steps)
    assert isinstance(batch, Timestep)
    assert batch.obs.shape == (3, 2)
    assert batch.truncated.tolist() == [False, False, True]
    assert batch.terminated.tolist() == [False, True, False]
    rows = default_decollate(batch)
    assert [(row.truncated, row.terminated) for row in rows] == [
        (step.truncated, step.terminated) for step in steps
    ]


@pytest.mark.parametrize("convert", [to_tensor, to_list, lambda step: to_device(step, "cpu")])
def test_conversions_keep_the_flags_of_a_timestep(convert: Callable[[Any], Any]) -> None:
    step = Timestep(torch.ones(2), torch.tensor(1.0), torch.tensor(True), {}, truncated=True)
    assert (convert(step).truncated, convert(step).terminated) == (True, False)
