"""Batch against the plain list of dicts that it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicore.data import Batch
from dicore.errors import NonFiniteError, SchemaError

Rows = list[dict[str, Any]]


@st.composite
def row_lists(draw: st.DrawFn) -> Rows:
    """Lists of rows that share keys, shapes and dtypes; one column may be nested."""
    keys = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True))
    shapes = {key: tuple(draw(st.lists(st.integers(0, 3), max_size=2))) for key in keys}
    dtypes = {
        key: draw(st.sampled_from([np.float32, np.int64, np.uint8, np.bool_])) for key in keys
    }
    nested = draw(st.booleans())
    count = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows: Rows = []
    for _ in range(count):
        row: dict[str, Any] = {
            key: (rng.random(shapes[key]) * 200 - 0).astype(dtypes[key])
            if shapes[key]
            else dtypes[key](rng.random() * 200)
            for key in keys
        }
        if nested:
            row["nested"] = {"deep": rng.random(2).astype(np.float32), "flag": np.bool_(True)}
        rows.append(row)
    return rows


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(np.array_equal(left, right)) and np.asarray(left).dtype == np.asarray(right).dtype


@given(row_lists())
def test_rows_come_back_as_they_went_in(rows: Rows) -> None:
    batch = Batch.from_rows(rows)
    assert len(batch) == len(rows)
    assert all(same(a, b) for a, b in zip(batch.rows(), rows, strict=True))
    assert all(same(a, b) for a, b in zip(batch, rows, strict=True))


@given(row_lists(), st.integers(-8, 8), st.integers(-8, 8))
def test_indexing_is_that_of_the_list(rows: Rows, start: int, stop: int) -> None:
    batch = Batch.from_rows(rows)
    part = batch[start:stop]
    assert isinstance(part, Batch)
    assert len(part) == len(rows[start:stop])
    assert all(same(a, b) for a, b in zip(part.rows(), rows[start:stop], strict=True))
    if -len(rows) <= start < len(rows):
        assert same(batch[start], rows[start])
    else:
        with pytest.raises(IndexError, match=str(start)):
            batch[start]


@given(row_lists(), row_lists())
def test_concat_is_that_of_the_lists(rows: Rows, other: Rows) -> None:
    first, second = Batch.from_rows(rows), Batch.from_rows(rows[:1])
    joined = Batch.concat([first, second, first])
    expected = rows + rows[:1] + rows
    assert all(same(a, b) for a, b in zip(joined.rows(), expected, strict=True))


@given(row_lists(), st.data())
def test_fancy_indexing_takes_those_rows(rows: Rows, data: st.DataObject) -> None:
    index = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1)), np.int64)
    taken = Batch.from_rows(rows)[index]
    assert all(same(row, rows[i]) for row, i in zip(taken.rows(), index, strict=True))


def test_rows_are_views_and_copy_is_not() -> None:
    batch = Batch({"x": np.zeros((3, 2), np.float32)})
    batch[1]["x"][:] = 7
    assert batch["x"][1].tolist() == [7, 7]
    twin = batch.copy()
    twin["x"][:] = 1
    assert batch["x"][1].tolist() == [7, 7]


def test_doubles_become_floats_and_integers_stay() -> None:
    batch = Batch.from_rows([{"x": 1.5, "n": 3, "b": True}])
    assert [batch[key].dtype for key in "xnb"] == [np.float32, np.int64, np.bool_]


def test_tensors_share_memory_on_the_cpu() -> None:
    import torch

    batch = Batch({"x": np.zeros((3, 2), np.float32), "deep": {"y": np.arange(3)}})
    tensors = batch.to_torch()
    tensors["x"][0] = 5
    assert batch["x"][0].tolist() == [5, 5]
    assert torch.equal(tensors["deep"]["y"], torch.arange(3))
    assert len(tensors[1:]) == 2
    assert len(Batch.concat([tensors, tensors])) == 6


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"a": np.zeros(3), "b": np.zeros(4)}, "differ in length"),
        ({"a": np.float32(1)}, "'?a'? has no leading axis|a has no leading axis"),
        ({}, "at least one column"),
    ],
)
def test_columns_that_share_no_axis_are_refused(columns: dict[str, Any], text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        Batch(columns)


def test_a_row_with_a_missing_key_is_named() -> None:
    with pytest.raises(SchemaError, match=r"row 1 lacks the key 'b'"):
        Batch.from_rows([{"a": 1, "b": 2}, {"a": 1}])


def test_rows_of_other_shapes_are_refused() -> None:
    with pytest.raises(SchemaError, match="cannot stack rows"):
        Batch.from_rows([{"a": np.zeros(2)}, {"a": np.zeros(3)}])


def test_doubles_become_single_and_those_too_large_are_refused() -> None:
    batch = Batch.from_rows([{"a": 1.5, "b": np.inf}, {"a": -3e38, "b": np.nan}])
    assert batch["a"].dtype == batch["b"].dtype == np.float32
    assert batch["b"][0] == np.inf
    with pytest.raises(NonFiniteError, match=r"-1e\+300 is too large for float32"):
        Batch.from_rows([{"a": 1.5}, {"a": -1e300}])


def test_a_column_that_is_not_there_is_told() -> None:
    batch = Batch({"obs": np.zeros(2), "reward": np.ones(2)})
    with pytest.raises(SchemaError, match=r"no column 'rewrad'\n.*obs, reward"):
        batch["rewrad"]
    assert batch.get("rewrad") is None


@pytest.mark.parametrize(
    "others", [[], [{"b": np.zeros(2)}], [{"a": {"x": np.zeros(2)}}], [{"a": np.zeros((2, 3))}]]
)
def test_batches_that_cannot_be_joined_are_refused(others: list[dict[str, Any]]) -> None:
    first = [Batch({"a": np.zeros(2)})] if others else []
    with pytest.raises(SchemaError, match="concatenate"):
        Batch.concat([*first, *map(Batch, others)])
