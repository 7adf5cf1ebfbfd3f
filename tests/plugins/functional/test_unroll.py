"""get_train_sample: pieces of a trajectory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dicore.errors import UsageError
from dicore_compat.functional import default_collate
from dicore_plugins.functional import get_train_sample


def trajectory(length: int) -> list[dict[str, Any]]:
    return [
        {
            "t": t,
            "obs": {"x": torch.full((2,), float(t))},
            "reward": torch.tensor([float(t)]),
            "done": t == length - 1,
            "value_gamma": 0.9,
        }
        for t in range(length)
    ]


@pytest.mark.parametrize(
    ("length", "how", "want"),
    [
        (10, "drop", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (10, "last", [[0, 1, 2, 3], [4, 5, 6, 7], [6, 7, 8, 9]]),
        (10, "null_padding", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 8, 8]]),
        (3, "drop", []),
        (3, "last", [[0, 1, 2, 0]]),
    ],
)
def test_sequences_of_four_steps(length: int, how: Any, want: list[list[int]]) -> None:
    sequences = get_train_sample(trajectory(length), 4, how)
    assert [each["t"] for each in sequences] == want
    if length == 3 and sequences:
        assert sequences[0]["null"] == [False, False, False, True]


def test_fillers_count_for_nothing() -> None:
    data = trajectory(10)
    last = get_train_sample(data, 4, "null_padding")[-1]

    assert last["null"] == [False, False, True, True]
    assert last["done"] == [False, True, True, True]
    assert [float(each) for each in last["reward"]] == [8, 9, 0, 0]
    assert last["reward"][3].shape == (1,)
    assert last["value_gamma"] == [0.9, 0.9, 0.0, 0.0]
    assert last["obs"]["x"][3].shape == (2,)
    assert "null" not in data[0]
    assert float(data[8]["reward"]) == 8


def test_the_callers_null_transition_is_used() -> None:
    null = {"t": -1, "reward": np.zeros(1, np.float32)}
    piece = get_train_sample(trajectory(5), 4, "null_padding", null)[-1]
    assert piece["t"] == [4, -1, -1, -1]
    assert piece["null"] == [False, True, True, True]
    assert piece["done"] == [True, True, True, True]


def test_one_step_returns_the_rows() -> None:
    assert [row["t"] for row in get_train_sample(trajectory(3), 1)] == [0, 1, 2]


def test_pieces_collate() -> None:
    batch = default_collate(get_train_sample(trajectory(6), 4, "null_padding"))
    assert batch["obs"]["x"][3].shape == (2, 2)
    assert batch["null"][3].tolist() == [False, True]


def test_what_is_unknown_is_refused() -> None:
    with pytest.raises(UsageError, match="'rest'"):
        get_train_sample(trajectory(3), 2, "rest")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unroll_len must be >= 1"):
        get_train_sample(trajectory(3), 0)


@given(st.integers(1, 20), st.integers(2, 6), st.sampled_from(["last", "drop", "null_padding"]))
def test_every_step_is_there_and_every_piece_is_full(length: int, unroll: int, how: Any) -> None:
    pieces = get_train_sample(trajectory(length), unroll, how)
    assert all(len(column) == unroll for piece in pieces for column in (piece["t"], piece["done"]))
    none = [False] * unroll
    real = {
        t
        for piece in pieces
        for t, null in zip(piece["t"], piece.get("null", none), strict=True)
        if not null
    }
    kept = length - length % unroll if how == "drop" else length
    assert real == set(range(kept))
