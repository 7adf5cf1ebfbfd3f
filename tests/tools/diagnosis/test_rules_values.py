"""Rules about discount, target networks and Q values, on evidence that is made up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore_tools.diagnosis.finding import MissingEvidenceError
from dicore_tools.diagnosis.rules_values import (
    ends_ignored,
    frozen_target,
    no_target,
    short_horizon,
    values_too_high,
)
from tests.tools.diagnosis.conftest import Recorded

LENGTH = "collector/avg_envstep_per_episode"


@pytest.mark.parametrize(
    ("gamma", "length", "is_found"),
    [(0.5, 100, True), (0.99, 100, False), (0.9, 200, False), (0.5, 10, False), (1.0, 100, False)],
)
def test_a_discount_that_hides_the_episode_is_found(
    recorded: Recorded, gamma: float, length: float, is_found: bool
) -> None:
    run = recorded({"policy.discount_factor": gamma}, {LENGTH: [length]})
    assert (short_horizon(run) is not None) is is_found


def networks(apart: float) -> dict[str, Any]:
    weight = np.ones((4, 4), np.float32)
    model, target = {"w": weight}, {"w": weight - np.float32(apart)}
    return {"learner": {"policy": {"model": model, "target_model": target}}}


@pytest.mark.parametrize(
    ("theta", "freq", "names"),
    [
        (1.0, 1, {"no_target"}),
        (None, 1, {"no_target"}),
        (None, 100, set()),
        (0.005, None, set()),
        (1e-6, None, {"frozen_target"}),
        (None, 10_000, {"frozen_target"}),
    ],
)
def test_a_target_that_follows_at_once_or_never_is_found(
    recorded: Recorded, theta: float | None, freq: int | None, names: set[str]
) -> None:
    options = {"policy.learn.target_theta": theta, "policy.learn.target_update_freq": freq}
    run = recorded(options, state=networks(0.1))
    found = {rule.__name__ for rule in (no_target, frozen_target) if rule(run) is not None}
    assert found == names


def test_an_algorithm_without_target_is_not_asked(recorded: Recorded) -> None:
    with pytest.raises(MissingEvidenceError, match="target_model"):
        no_target(recorded(state={"learner": {"policy": {"model": {}}}}))


def values(recorded: Recorded, q: float, reward: float, length: float, **options: object) -> Any:
    run = recorded(
        {"policy.discount_factor": 0.99, "policy.nstep": 1, **options},
        {
            "learner/q_value": [q] * 8,
            "collector/reward_max": [reward * length] * 4,
            LENGTH: [length] * 4,
        },
        {"buffer": {"columns": {"reward": np.full(32, reward, np.float32)}}},
    )
    return values_too_high(run)


def test_values_above_the_returns_are_found(recorded: Recorded) -> None:
    assert values(recorded, 95, 1.0, 20) is not None
    assert values(recorded, 20, 1.0, 20) is None
    assert values(recorded, 500, 1.0, 1000) is not None
    assert values(recorded, -150, -1.0, 200) is not None
    assert values(recorded, -60, -1.0, 200) is None
    assert values(recorded, 30, -1.0, 200) is not None


def test_values_are_those_of_rewards_by_their_factor(recorded: Recorded) -> None:
    factor = {"policy.learn.reward_scale": 20.0}
    assert values(recorded, 400, 1.0, 20, **factor) is None
    assert values(recorded, -1200, -1.0, 200, **factor) is None
    assert values(recorded, 20, 0.1, 20, **{"policy.learn.reward_scale": 0.1}) is not None
    found = values(recorded, 1900, 1.0, 20, **factor)
    assert found is not None
    assert found.numbers["highest"] == pytest.approx(2000)
    assert "by the factor 20 of rewards" in found.what


@pytest.mark.parametrize("axes", [(), (5,)], ids=["steps", "sequences"])
def test_values_of_a_team_may_be_those_of_the_sum_of_its_rewards(
    recorded: Recorded, axes: tuple[int, ...]
) -> None:
    def found(q: float, reward: list[float]) -> Any:
        paid = np.broadcast_to(np.asarray(reward, np.float32), (32, *axes, 3))
        return values_too_high(
            recorded(
                {"policy.discount_factor": 0.99, "policy.nstep": 1, "policy.model.agents": 3},
                {
                    "learner/target_q_value": [q] * 8,
                    "collector/reward_max": [sum(reward) * 200] * 4,
                    LENGTH: [200] * 4,
                },
                {"buffer": {"columns": {"reward": paid}}},
            )
        )

    assert found(240.0, [1, 1, 1]) is None
    assert found(400.0, [1, 1, 1]) is not None
    assert found(-240.0, [-1, -1, -1]) is None
    assert found(-400.0, [-1, -1, -1]) is not None
    assert found(80.0, [1, -1, 0]) is None  # what one wins another loses
    assert found(300.0, [1, -1, 0]) is not None


@pytest.mark.parametrize(
    ("ignores", "done", "is_found"),
    [(True, [0, 1, 0], True), (True, [0, 0, 0], False), (False, [0, 1, 0], False)],
)
def test_ends_that_are_ignored_are_found(
    recorded: Recorded, ignores: bool, done: list[int], is_found: bool
) -> None:
    state = {"buffer": {"columns": {"done": np.asarray(done, np.float32)}}}
    run = recorded({"policy.learn.ignore_done": ignores}, state=state)
    assert (ends_ignored(run) is not None) is is_found


def test_double_q_learning_is_named_where_it_is_off(recorded: Recorded) -> None:
    found = values(recorded, 95, 1.0, 20, **{"policy.learn.double": False})
    assert found.change[0].option == "policy.learn.double"


def test_the_bonus_of_the_entropy_is_allowed(recorded: Recorded) -> None:
    run = recorded(
        {"policy.discount_factor": 0.99},
        {
            "learner/q_value": [40.0] * 8, "learner/alpha": [1.0] * 8,
            "learner/entropy": [0.6] * 8, "collector/reward_max": [0.0], LENGTH: [100.0],
        },
        {"buffer": {"columns": {"reward": np.full(32, -0.1, np.float32)}}},
    )  # fmt: skip
    assert values_too_high(run) is None
