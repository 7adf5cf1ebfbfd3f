from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore.data import Batch
from dicore_agents.policies.samples import SumOfRewards, own_samples


def block(reward: Any, **more: Any) -> Batch:
    """Three steps of an environment of two agents."""
    seen = {"obs": np.zeros((3, 1, 2, 1), np.float32), **more}
    flags = {"done": np.zeros((3, 1), bool), "end": np.zeros((3, 1), bool)}
    columns = {"obs": seen, "next_obs": seen, "action": np.zeros((3, 1, 2), int), **flags}
    return Batch({**columns, "reward": np.asarray(reward, np.float32)}, 3)


@pytest.mark.parametrize(
    ("reward", "wanted"),
    [([[1]] * 3, [1.75]), ([[[1, 1]]] * 3, [[1.75, 1.0]])],
    ids=["of the team", "of each agent"],
)
def test_what_is_earned_after_an_agent_died_is_the_teams_return_not_its_own(
    reward: Any, wanted: Any
) -> None:
    alive = np.array([[[1, 1]], [[1, 0]], [[1, 0]]], np.int8)
    found = own_samples(block(reward, alive=alive), 3, 0.5, None)
    assert found["reward"].tolist() == wanted
    assert found["reward"].dtype == np.float32


def test_rewards_keep_their_form_where_all_act() -> None:
    assert own_samples(block([[1]] * 3), 3, 0.5, None)["reward"].tolist() == [1.75]
    assert own_samples(block([[1], [2], [3]]), 1, 0.5, None)["reward"].tolist() == [1, 2, 3]


def block_of(reward: Any) -> Batch:
    return Batch({"reward": np.asarray(reward, np.float32)}, len(reward))


@pytest.mark.parametrize(
    ("rewards", "told"),
    [
        ([[[1, -1]] * 2] * 60, True),
        ([[[1, -1]] * 2] * 40, False),  # too few to tell
        ([[[0, 0]] * 2] * 60, False),
        ([[[1, -1]] * 2] * 59 + [[[1, -1], [1, 0]]], False),
        ([[1, -1]] * 60, False),  # those of a team in two environments
    ],
)
def test_rewards_that_add_up_to_nothing_are_told_of(
    rewards: Any, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    found = SumOfRewards()
    for _ in range(3 if told else 1):
        found.see(block_of(rewards), "vdn")
    assert caplog.text.count("vdn learns from their sum") == int(told)
