"""Rules about rewards and observations, on evidence that is made up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore_tools.diagnosis.finding import MissingEvidenceError
from dicore_tools.diagnosis.rules_data import (
    constant_observations,
    constant_rewards,
    normalisation_drifts,
    observation_scale,
    reward_scale,
)
from dicore_tools.diagnosis.rules_values import values_too_high
from tests.tools.diagnosis.conftest import Recorded


def returns(low: list[float], high: list[float], episodes: int = 40) -> dict[str, list[float]]:
    return {
        "collector/reward_min": low,
        "collector/reward_max": high,
        "collector/total_episode_count": [episodes] * len(low),
    }


def buffer(**columns: Any) -> dict[str, Any]:
    return {"buffer": {"columns": columns}}


def test_rewards_of_zero_are_found_and_the_wrapper_named(recorded: Recorded) -> None:
    wrapper = {"type": "clip_reward", "min_reward": 0.0, "max_reward": 0.0}
    run = recorded({"env.env_wrapper": (wrapper,)}, returns([0, 0], [0, 0]))
    found = constant_rewards(run)
    assert found is not None
    assert "that are learned from are equal" in found.what
    assert "[0.0, 0.0]" in found.cause
    stored = buffer(reward=np.zeros(32, np.float32))
    options = {"env.env_wrapper": ({"type": "clip_reward", "min_reward": 0.0, "max_reward": 1.0},)}
    cost = returns([-9, -8], [-5, -4])
    assert constant_rewards(recorded(options, cost, stored)) is not None
    stored["buffer"]["columns"]["reward"][3] = 1.0
    assert constant_rewards(recorded(options, cost, stored)) is None
    assert found.change[0].option == "env.env_wrapper"


@pytest.mark.parametrize(
    "curves", [returns([1, 2], [3, 4]), returns([5, 5], [5, 5], 3), returns([1, 2], [1, 2])]
)
def test_returns_that_vary_or_are_few_are_no_fault(
    recorded: Recorded, curves: dict[str, list[float]]
) -> None:
    assert constant_rewards(recorded(curves=curves)) is None


def test_many_steps_without_a_reward_tell_as_much_as_many_episodes(recorded: Recorded) -> None:
    curves, stored = returns([0, 0], [0, 0], 3), buffer(reward=np.zeros(32, np.float32))
    assert constant_rewards(recorded({}, curves, stored, 900)) is None
    assert constant_rewards(recorded({}, curves, stored, 8_000)) is not None
    values = {**curves, "learner/q_value": [0.1] * 4, "collector/avg_envstep_per_episode": [100]}
    with pytest.raises(MissingEvidenceError, match="no reward was other than 0"):
        values_too_high(recorded({"policy.discount_factor": 0.9}, values, stored, 8_000))


@pytest.mark.parametrize(("scale", "word"), [(1e4, "large"), (1e-5, "small")])
def test_observations_of_a_bad_scale_are_found(recorded: Recorded, scale: float, word: str) -> None:
    obs = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    found = observation_scale(recorded(state=buffer(obs=scale * obs)))
    assert found is not None
    assert word in found.what
    assert observation_scale(recorded(state=buffer(obs=obs))) is None


def test_without_a_buffer_the_latest_observations_are_looked_at(recorded: Recorded) -> None:
    running = [{"obs": np.full(3, 1e4, np.float32)}, {"obs": np.zeros(3, np.float32)}]
    assert observation_scale(recorded(state={"collector_env": {"running": running}})) is not None


def test_images_have_no_scale(recorded: Recorded) -> None:
    obs = np.full((8, 1, 9, 9), 255, np.uint8)
    with pytest.raises(MissingEvidenceError, match="not vectors of real numbers"):
        observation_scale(recorded(state=buffer(obs=obs)))


def test_observations_that_do_not_change_are_found(recorded: Recorded) -> None:
    same = recorded(state=buffer(obs=np.ones((64, 4), np.float32)))
    assert constant_observations(same) is not None
    other = recorded(state=buffer(obs=np.eye(64, 4, dtype=np.float32)))
    assert constant_observations(other) is None


def test_the_scale_of_rewards_is_that_of_one_step(recorded: Recorded) -> None:
    options = {"policy.discount_factor": 1.0, "policy.nstep": 5}
    reward = np.full(64, 300.0, np.float32)  # of five steps: 60 each
    assert reward_scale(recorded(options, state=buffer(reward=reward))) is None
    assert reward_scale(recorded(options, state=buffer(reward=10 * reward))) is not None
    curves = {"collector/reward_mean": [-9e4] * 4, "collector/avg_envstep_per_episode": [100] * 4}
    found = reward_scale(recorded(options, curves))
    assert found is not None
    assert found.numbers["reward"] == 900
    sparse = {"collector/reward_mean": [0.02] * 4, "collector/avg_envstep_per_episode": [60] * 4}
    assert reward_scale(recorded(options, sparse)) is None  # 1 at the goal, seldom


def test_what_agents_win_of_each_other_is_no_constant_reward(recorded: Recorded) -> None:
    options, nothing = {"policy.model.agents": 2}, returns([0, 0], [0, 0])
    paid = np.tile(np.array([[1, -1]], np.float32), (32, 1))
    for state in (None, buffer(reward=paid)):
        with pytest.raises(MissingEvidenceError, match="what one wins another loses"):
            constant_rewards(recorded(options, nothing, state))
    for none in (0 * paid, 0 * paid[:, 0]):  # own rewards, and one of the team
        assert constant_rewards(recorded(options, nothing, buffer(reward=none))) is not None
    assert constant_rewards(recorded({}, nothing)) is not None


def test_rewards_are_of_the_size_that_the_policy_learns_them_in(recorded: Recorded) -> None:
    small = buffer(reward=np.full(64, 5e-4, np.float32))
    assert reward_scale(recorded(state=small)) is not None
    assert reward_scale(recorded({"policy.learn.reward_scale": 20.0}, state=small)) is None
    found = reward_scale(recorded({"policy.learn.reward_scale": 1e6}, state=small))
    assert found is not None
    assert found.change[0].option == "policy.learn.reward_scale"
    curves = {"collector/reward_mean": [900.0] * 4, "collector/avg_envstep_per_episode": [9] * 4}
    assert reward_scale(recorded(curves=curves)) is not None
    assert reward_scale(recorded({"policy.learn.reward_scale": 0.01}, curves)) is None


def test_normalised_observations_that_drift_are_found(recorded: Recorded) -> None:
    obs = np.random.default_rng(0).normal(size=(256, 4)).astype(np.float32)
    options = {"env.env_wrapper": ({"type": "obs_norm"},)}
    assert normalisation_drifts(recorded(options, state=buffer(obs=obs))) is None
    obs[:, 2] += 3**0.5
    found = normalisation_drifts(recorded(options, state=buffer(obs=obs)))
    assert found is not None
    assert "number 2" in found.what
    with pytest.raises(MissingEvidenceError, match="obs_norm"):
        normalisation_drifts(recorded(state=buffer(obs=obs)))
