"""default_preprocess_learn, over all combinations of its flags."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from dicore.data import Batch
from dicore.errors import SchemaError, UsageError
from dicore_compat.functional import default_preprocess_learn


def rows() -> list[dict[str, Any]]:
    return [
        {
            "obs": np.full(3, i, np.float32),
            "reward": torch.tensor([i, i + 0.5]),
            "done": i == 1,
            "IS": float(i + 1),
        }
        for i in range(4)
    ]


@pytest.mark.parametrize(
    ("priority", "weight", "nstep", "ignore_done"), list(product([False, True], repeat=4))
)
def test_flags(priority: bool, weight: bool, nstep: bool, ignore_done: bool) -> None:
    given = rows()
    if weight and not priority:
        with pytest.raises(UsageError, match="use_priority"):
            default_preprocess_learn(given, weight, priority, nstep, ignore_done)
        return
    batch = default_preprocess_learn(given, weight, priority, nstep, ignore_done)
    assert batch["done"].tolist() == [0, 0 if ignore_done else 1, 0, 0]
    assert batch["done"].dtype == torch.float32
    assert batch["reward"].shape == ((2, 4) if nstep else (4, 2))
    assert batch["reward"].reshape(-1)[-1] == 3.5
    if weight:
        assert batch["weight"].tolist() == [1, 2, 3, 4]
    else:
        assert batch["weight"] is None
    assert given[1]["done"] is True
    assert given[0]["reward"].shape == (2,)


def test_a_batch_does_too() -> None:
    columns = {"reward": np.ones((4, 2), np.float32), "done": np.array([0, 1, 0, 0], np.bool_)}
    batch = default_preprocess_learn(Batch(columns), use_nstep=True, ignore_done=True)
    assert batch["reward"].shape == (2, 4)
    assert batch["done"].sum() == 0
    assert columns["done"].sum() == 1


@pytest.mark.parametrize("column", ["IS", "priority_IS"])
def test_weights_of_either_name_become_the_weight(column: str) -> None:
    rows = [{"done": False, "reward": 1.0, column: 0.25, "priority": 2.0} for _ in range(3)]
    found = default_preprocess_learn(rows, use_priority=True, use_priority_IS_weight=True)
    assert found["weight"].tolist() == [0.25] * 3
    with pytest.raises(SchemaError, match="the rows have no IS or priority_IS; they have done"):
        default_preprocess_learn(
            [{"done": False, "reward": 1.0}], use_priority=True, use_priority_IS_weight=True
        )


def test_weights_of_the_rows_themselves_stay() -> None:
    rows = [{"done": False, "reward": 1.0, "weight": 0.5} for _ in range(3)]
    assert default_preprocess_learn(rows)["weight"].tolist() == [0.5] * 3
