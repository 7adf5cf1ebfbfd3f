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
from dicore_compat.functional import (
    default_collate,
    default_decollate,
    diff_shape_collate,
    same_shape,
    tensor_to_list,
    timestep_collate,
    to_device,
    to_dtype,
    to_item,
    to_list,
    to_ndarray,
    to_tensor,
)
from dicore_plugins.functional import get_train_sample

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


def test_what_is_empty_is_in_every_sample() -> None:
    samples = [{"x": 1.0, "info": {}, "more": [], "deep": {"none": {}}} for _ in range(3)]
    apart = default_decollate(default_collate(samples))
    assert apart == samples
    assert apart[0]["info"] is not apart[1]["info"]
    assert default_decollate({"x": torch.ones(2), "prev_state": None})[1]["prev_state"] is None


@pytest.mark.parametrize(
    ("batch", "error", "text"),
    [
        ({"a": torch.ones(2), "b": torch.ones(3)}, SchemaError, "length: {'a': 2, 'b': 3}"),
        ({"a": {"b": torch.tensor(1)}}, SchemaError, r"scalar at 'a\.b'"),
        ({"a": 1.0}, TypeError, "at 'a' values of type float"),
        ({}, SchemaError, "a batch without columns"),
        ({"a": {}, "b": []}, SchemaError, "a batch without columns"),
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


# ---- sequences, and columns of several shapes


def sequence(number: int, steps: int = 3) -> dict[str, Any]:
    """T steps as a dict of lists; every value tells where it comes from."""
    return {
        "obs": {"x": [torch.tensor([10.0 * number + t, 0]) for t in range(steps)]},
        "reward": [torch.tensor([float(t)]) for t in range(steps)],
        "action": [number + t for t in range(steps)],
        "null": [False] * steps,
        "prev_state": [{"h": torch.tensor(number + t)} for t in range(steps)],
    }


@pytest.mark.parametrize("as_rows", [False, True])
def test_sequences_become_columns_by_time(as_rows: bool) -> None:
    samples: list[Any] = [sequence(number) for number in range(2)]
    if as_rows:
        samples = [
            [{"obs": {"x": x}, **{key: each[key][t] for key in each if key != "obs"}}
             for t, x in enumerate(each["obs"]["x"])]
            for each in samples
        ]  # fmt: skip
    found = timestep_collate(samples)
    assert found["obs"]["x"].shape == (3, 2, 2)
    assert found["obs"]["x"][2, 1].tolist() == [12, 0]
    assert found["reward"].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert found["action"].dtype == torch.int64
    assert found["null"].dtype == torch.bool
    assert [len(step) for step in found["prev_state"]] == [2, 2, 2]
    assert found["prev_state"][0][1]["h"].item() == 1
    assert found["prev_state"][2][1]["h"].item() == 3


def test_pieces_of_a_trajectory_become_columns_by_time() -> None:
    data = [
        {"obs": torch.full((4,), float(t)), "reward": 1.0 * t, "done": t == 6} for t in range(7)
    ]
    found = timestep_collate(get_train_sample(data, 3, "null_padding"))
    assert found["obs"].shape == (3, 3, 4)
    assert found["null"].tolist() == [[False] * 3, [False, False, True], [False, False, True]]
    assert found["done"][:, 2].tolist() == [True, True, True]


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        ([], "cannot collate an empty list"),
        ([[]], "sample 0 has no steps"),
        ([{"a": [1, 2]}, {"a": [1]}], "sample 1 has 1 items at 'a'; sample 0 has 2"),
        (
            [{"a": [1], "prev_state": [None]}, {"a": [1]}],
            "1 of 2 samples have the key 'prev_state'",
        ),
        ([[{"a": 1}, {"b": 1}]], "the steps of sample 0 differ in their keys"),
        ([torch.ones(2)], "sample 0 is neither a dict of lists nor a list of dicts: Tensor"),
    ],
)
def test_sequences_that_do_not_fit_are_refused(samples: list[Any], text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        timestep_collate(samples)


def test_shapes_that_differ_stay_a_list() -> None:
    samples = [
        {
            "odd": torch.zeros(2) if number == 1 else np.zeros(3),
            "same": torch.ones(1),
            "deep": {"maybe": None if number == 1 else 2.0, "n": number},
            "pair": Pair(float(number), name),
        }
        for number, name in ((1, "a"), (2, "b"))
    ]
    found = diff_shape_collate(samples)
    assert [tuple(each.shape) for each in found["odd"]] == [(2,), (3,)]
    assert all(isinstance(each, torch.Tensor) for each in found["odd"])
    assert found["same"].shape == (2, 1)
    assert found["deep"]["maybe"] == [None, 2.0]
    assert found["deep"]["n"].tolist() == [1, 2]
    assert same(found["pair"], Pair(torch.tensor([1.0, 2.0]), ["a", "b"]))
    assert diff_shape_collate([None, torch.ones(1)])[0] is None


@pytest.mark.parametrize(
    ("samples", "error", "text"),
    [
        ([], SchemaError, "cannot collate an empty list"),
        ([{"a": 1}, {}], SchemaError, "sample 1 has no key 'a'"),
        ([[1, 2], [3]], SchemaError, "sample 1 has 1 items"),
        ([object()], TypeError, "type object"),
    ],
)
def test_odd_samples_that_do_not_fit_are_refused(
    samples: list[Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        diff_shape_collate(samples)


# ---- conversions


@pytest.mark.parametrize(
    ("item", "options", "want"),
    [
        (np.ones(2), {}, torch.ones(2)),
        (np.ones(2, np.int32), {}, torch.ones(2, dtype=torch.int32)),
        (np.float64(2), {}, torch.tensor(2.0)),
        ([1, 2], {}, torch.tensor([1, 2])),
        ([1.0, 2.0], {}, torch.tensor([1.0, 2.0])),
        ([True, False], {}, torch.tensor([True, False])),
        ([], {}, []),
        ((), {}, ()),
        (3, {}, torch.tensor(3)),
        (3.5, {}, torch.tensor(3.5)),
        (3.5, {"transform_scalar": False}, 3.5),
        (True, {}, True),
        ("x", {}, "x"),
        (None, {}, None),
        ([np.ones(1), "x"], {}, [torch.ones(1), "x"]),
        (Pair(1, np.ones(2)), {}, Pair(torch.tensor(1), torch.ones(2))),
        (torch.ones(2, dtype=torch.float64), {}, torch.ones(2, dtype=torch.float64)),
        (np.ones(2), {"dtype": torch.int64}, torch.ones(2, dtype=torch.int64)),
        (torch.ones(2), {"dtype": torch.int64}, torch.ones(2, dtype=torch.int64)),
        ({"a": 1, "raw": 1}, {"ignore_keys": ["raw"]}, {"a": torch.tensor(1), "raw": 1}),
        (np.ones(3)[::-1], {}, torch.ones(3)),
        (np.ones(3, ">f4"), {}, torch.ones(3)),
    ],
    ids=str,
)
def test_to_tensor(item: Any, options: dict[str, Any], want: Any) -> None:
    assert same(to_tensor(item, **options), want)


def test_read_only_arrays_are_copied() -> None:
    array = np.zeros(2, np.float32)
    array.flags.writeable = False
    to_tensor(array).fill_(1)
    assert not array.any()


@pytest.mark.parametrize("function", [to_tensor, to_ndarray, to_list], ids=lambda f: f.__name__)
def test_a_type_without_a_rule_is_named(function: Any) -> None:
    with pytest.raises(TypeError, match=f"{function.__name__}.*type object"):
        function({"x": [object()]})


def test_to_device_moves_what_can_be_moved() -> None:
    module = torch.nn.Linear(1, 1)
    item = {"t": torch.ones(2), "m": module, "l": [torch.ones(1), None, "s", 3], "p": Pair(1, 2.0)}
    meta = to_device({**item, "m": None}, "meta", ignore_keys=["l"])
    assert meta["t"].device.type == "meta"
    assert meta["l"] is item["l"]
    assert item["t"].device.type == "cpu"
    moved = to_device(item, "cpu")
    assert moved["m"] is module
    assert isinstance(moved["p"], Pair)
    assert moved["l"][1:] == [None, "s", 3]


def test_to_ndarray_and_to_list() -> None:
    item = {
        "t": torch.ones(2, requires_grad=True),
        "n": [1, 2],
        "s": "x",
        "b": True,
        "k": Pair(1, None),
    }
    array = to_ndarray(item)
    assert array["t"].dtype == np.float32
    assert array["n"].tolist() == [1, 2]
    assert (array["s"], array["b"], array["k"].right) == ("x", True, None)
    assert to_ndarray(torch.ones(1), np.int64).dtype == np.int64
    assert to_list({"t": torch.ones(2), "a": np.zeros((1, 2), int), "n": None}) == {
        "t": [1.0, 1.0], "a": [[0, 0]], "n": None
    }  # fmt: skip


def test_tensor_to_list_leaves_arrays() -> None:
    array = np.ones(1)
    assert tensor_to_list([torch.ones(2), array, 3]) == [[1.0, 1.0], array, 3]


def test_to_item() -> None:
    assert to_item([torch.tensor([2.5]), np.int64(3), "x"]) == [2.5, 3, "x"]
    two = torch.ones(2)
    assert to_item([two])[0] is two
    with pytest.raises(SchemaError, match=r"one element, got shape \(2,\)"):
        to_item(two, ignore_error=False)


def test_half_precision_is_converted_and_kept() -> None:
    for dtype, array in ((torch.float16, np.float16), (torch.bfloat16, np.float32)):
        one = torch.ones(2, dtype=dtype)
        assert to_tensor(one).dtype == to_device(one, "cpu").dtype == dtype
        assert default_collate([one, one]).dtype == dtype
        assert to_ndarray(one).dtype == array
        assert to_list(one) == [1.0, 1.0]


def test_to_dtype_and_same_shape() -> None:
    half = to_dtype({"x": torch.ones(2), "y": 1}, torch.float16)
    assert half["x"].dtype == torch.float16
    assert half["y"] == 1
    assert same_shape([torch.ones(2), np.ones(2)])
    assert same_shape([])
    assert not same_shape([torch.ones(2), torch.ones(2, 1)])


values = st.recursive(
    st.lists(st.integers(-9, 9), min_size=1, max_size=3) | st.text(max_size=2) | st.none(),
    lambda below: st.dictionaries(st.text(max_size=2), below, max_size=3) | st.tuples(below, below),
    max_leaves=6,
)


@given(values)
def test_lists_survive_a_round_trip(value: Any) -> None:
    """To tensors, to arrays, and back to lists."""
    assert to_list(to_ndarray(to_tensor(value))) == value
