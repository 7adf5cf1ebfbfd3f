"""Conversions: the table of rules, then round trips."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dicore.errors import SchemaError
from dicore_plugins.functional.conversions import (
    same_shape,
    tensor_to_list,
    to_device,
    to_dtype,
    to_item,
    to_list,
    to_ndarray,
    to_tensor,
)
from tests.plugins.functional.test_collate import same

Pair = namedtuple("Pair", ["left", "right"])


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
