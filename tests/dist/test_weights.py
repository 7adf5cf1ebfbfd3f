"""Versions of parameters: whole, unchanged by later training, of every dtype."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from dicore_dist import Publisher, Versioned
from dicore_dist.workers.weights import as_arrays, as_tensors


class Mode:
    """Parameters, and how often they were loaded."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"model": {"w": torch.zeros(3)}}
        self.loads = 0

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state, self.loads = state, self.loads + 1


def test_a_version_is_published_and_loaded_once() -> None:
    stored: list[Any] = []
    mode, acting = Mode(), Mode()
    publisher = Publisher(
        mode, lambda state: stored.append(copy.deepcopy(state)) or len(stored) - 1
    )
    versioned = Versioned(acting)
    for version in (0, 0, 5):
        mode.state["model"]["w"] += 1
        address = publisher.publish(version)
        versioned.adopt(publisher.version, stored[address])
    assert (len(stored), acting.loads, versioned.version) == (2, 2, 5)
    assert acting.state["model"]["w"].tolist() == [3, 3, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_of_every_dtype_come_back(dtype: torch.dtype) -> None:
    state = {"a": torch.arange(6).reshape(2, 3).to(dtype), "n": 3, "x": np.ones(2), "none": None}
    state["empty"] = torch.zeros(0, 2).to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = as_tensors(_read_only(as_arrays(state)))
    assert found["a"].dtype == dtype
    assert torch.equal(found["a"], state["a"])
    assert found["empty"].shape == (0, 2)
    assert isinstance(found["x"], np.ndarray)
    assert (found["n"], found["none"]) == (3, None)


def _read_only(tree: dict[str, Any]) -> dict[str, Any]:
    for leaf in tree.values():
        data = getattr(leaf, "data", None)
        if isinstance(data, np.ndarray):
            data.setflags(write=False)
    return tree
