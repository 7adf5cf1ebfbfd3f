from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore.data import Batch
from dicore_agents.policies.samples import own_samples


def block(reward: Any, **more: Any) -> Batch:
    """Three steps of an environment of two agents."""
    seen = {"obs": np.zeros((3, 1, 2, 1), np.float32), **more}
    flags = {"done": np.zeros((3, 1), bool), "end": np.zeros((3, 1), bool)}
    columns = {"obs": seen, "next_obs": seen, "action": np.zeros((3, 1, 2), int), **flags}
    return Batch({**columns, "reward": np.asarray(reward, np.float32)}, 3)


@pytest.mark.parametrize(
    "reward", [[[1]] * 3, [[[1, 1]]] * 3], ids=["of the team", "of each agent"]
)
def test_what_is_earned_after_an_agent_died_is_not_its_return(reward: Any) -> None:
    alive = np.array([[[1, 1]], [[1, 0]], [[1, 0]]], np.int8)
    found = own_samples(block(reward, alive=alive), 3, 0.5, None)
    assert found["reward"].tolist() == [[1.75, 1.0]]
    assert found["reward"].dtype == np.float32


def test_rewards_keep_their_form_where_all_act() -> None:
    assert own_samples(block([[1]] * 3), 3, 0.5, None)["reward"].tolist() == [1.75]
    assert own_samples(block([[1], [2], [3]]), 1, 0.5, None)["reward"].tolist() == [1, 2, 3]
