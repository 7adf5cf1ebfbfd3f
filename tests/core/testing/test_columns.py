"""The table of columns, and what is wrong with columns that are written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore.interfaces.columns import COLUMNS, Column
from dicore.testing.columns import column_problems

STATE = Column("hidden", "...", "float", "state of a network", "policy", "learn mode")


def test_names_stand_once() -> None:
    names = [column.name for column in COLUMNS]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("name", "found", "problem"),
    [
        ("reward", np.zeros((4, 3)), ""),
        ("done", np.zeros(4, np.float32), ""),
        ("done", np.zeros(4, np.int64), "'done' has int64, declared is flag"),
        ("env_id", np.zeros((4, 1), np.int64), "'env_id' has items of shape (1,), one number fits"),
        ("env_id", [0, 1, 2, 3], "'env_id' is a list, not an array"),
        ("obs", {"a": np.zeros(4), "b": np.zeros(4)}, ""),
        ("hidden", np.zeros((4, 8)), ""),
        ("hidden", np.zeros((4, 8), np.int64), "'hidden' has int64, declared is float"),
        ("hiden", np.zeros((4, 8)), "'hiden' is neither in COLUMNS nor declared by the component"),
    ],
)
def test_a_column_is_as_declared(name: str, found: Any, problem: str) -> None:
    assert column_problems({name: found}, (STATE,), axes=1) == ([problem] if problem else [])


def test_components_that_declare_none_may_write_any() -> None:
    assert column_problems({"hiden": np.zeros((4, 8))}, None, axes=1) == []
