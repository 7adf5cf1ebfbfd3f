"""PWIL: the matching step by step, and data that it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore.data import Batch
from dicore.errors import NonFiniteError, SchemaError, UsageError
from dicore_contrib import PWIL
from tests.plugins.reward_models.test_expert import made, samples


def matched(expert: Any, agent: Any, horizon: int) -> list[float]:
    """The greedy matching of one episode, step by step (Dadashi et al. 2021, algorithm 1)."""
    left, found = np.full(len(expert), 1 / len(expert)), []
    for step in agent:
        distance, wanted, cost = np.linalg.norm(expert - step, axis=1), 1 / horizon, 0.0
        while wanted > 1e-9:
            near = min(np.flatnonzero(left > 1e-9), key=lambda i: distance[i])
            taken = min(left[near], wanted)
            cost, wanted = cost + taken * distance[near], wanted - taken
            left[near] -= taken
        found.append(5 * np.exp(-5 * horizon / np.sqrt(expert.shape[1]) * cost))
    return found


def test_pwil_matches_step_by_step_across_blocks() -> None:
    """Of two environments, whose episodes begin and end at any step, in blocks of any length."""
    model, horizon = made(PWIL, horizon=12), 12
    expert, agent = samples(30), samples(48, expert=False, seed=3)
    model.load_expert_data(expert)
    end = np.isin(np.arange(24), [4, 11, 12, 23])
    envs, ends = np.tile([7, 2], 24), np.stack([end, np.roll(end, 3)], 1).ravel()
    agent = Batch({**agent.columns, "env_id": envs, "end": ends})
    found = []
    for start, stop in ((0, 10), (10, 12), (12, 48)):
        block = agent[start:stop]
        model.collect_data(block)
        found.append(model.estimate(block)["reward"])
        assert (model.estimate(block)["reward"] == found[-1]).all()
    reward = np.concatenate(found)
    raw, own = (
        np.concatenate([each["obs"], np.eye(2)[each["action"]]], 1) for each in (expert, agent)
    )
    shown, own = ((each - raw.mean(0)) / raw.std(0) for each in (raw, own))
    for env in (7, 2):
        rows = np.flatnonzero(envs == env)
        for part in np.split(rows, np.flatnonzero(ends[rows]) + 1):
            wanted = matched(shown, own[part], horizon)
            np.testing.assert_allclose(reward[part], wanted, rtol=1e-3, atol=1e-5)


def test_pwil_pays_nothing_when_the_expert_is_used_up() -> None:
    model = made(PWIL, horizon=4)
    model.load_expert_data(samples(10))
    reward = model.estimate(samples(8))["reward"]
    assert (reward[:4] > 0).all()
    assert not reward[4:].any()


@pytest.mark.parametrize("bad", ["none", "no_action", "nan"])
def test_bad_expert_samples_are_refused(bad: str) -> None:
    data = samples()
    if bad == "nan":
        data["obs"][17, 1] = np.nan
    elif bad == "no_action":
        del data.columns["action"]
    data = data[:0] if bad == "none" else data
    error = {"none": UsageError, "no_action": SchemaError, "nan": NonFiniteError}[bad]
    with pytest.raises(error, match={"nan": "sample 17, obs"}.get(bad, "expert samples")):
        made(PWIL).load_expert_data(data)


def test_without_an_expert_it_says_so() -> None:
    with pytest.raises(UsageError, match="no expert data"):
        made(PWIL).estimate(samples())
