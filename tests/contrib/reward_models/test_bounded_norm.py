"""Rewards divided by spread and range of returns: by hand, over episodes, in a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dicore.config import compile_config
from dicore.data import Batch
from dicore.run.launch import launch
from dicore_contrib import BoundedRewardNorm


def seen(reward: list[float], env_id: list[int], end: list[int]) -> Batch:
    columns = {
        "reward": np.array(reward, np.float32), "env_id": np.array(env_id),
        "end": np.array(end, np.bool_), "done": np.zeros(len(reward), np.float32),
    }  # fmt: skip
    return Batch(columns, len(reward))


BLOCKS = [
    seen([1, 10, 2, 20, 3, 30], [0, 1, 0, 1, 0, 1], [0, 0, 0, 1, 1, 0]),
    seen([4, 40, 5], [0, 1, 0], [0, 0, 1]),
    seen([6, -7], [0, 1], [1, 1]),
]
# 0: 1, 2 + 1/2, 3 + 5/4 | 4, 5 + 2 | 6;   1: 10, 20 + 5 | 30, 40 + 15, -7 + 27.5
RETURNS = [
    [1, 10, 2.5, 25, 4.25, 30],
    [4, 55, 7],
    [6, 20.5],
]


@pytest.mark.parametrize("max_return", [5.0, 0.1, 100.0])
def test_the_divisor_is_that_of_a_hand(max_return: float) -> None:
    model = BoundedRewardNorm({"reward_discount": 0.5, "max_return": max_return})
    assert model.estimate(BLOCKS[0])["reward"].tolist() == [1, 10, 2, 20, 3, 30]
    past: list[float] = []
    for block, returns in zip(BLOCKS, RETURNS, strict=True):
        model.collect_data(block)
        model.train()
        past += returns
        spread = (np.var(past) + 1e-8) ** 0.5
        wanted = max(spread, max(map(abs, past)) / max_return)
        assert (wanted > spread) == (max_return == 0.1)
        found = model.estimate(block)["reward"]
        assert found == pytest.approx(np.asarray(block["reward"]) / wanted, rel=1e-5)
        assert np.abs(returns).max() / wanted <= max_return * 1.0001
        tensors = Batch({"reward": torch.from_numpy(np.asarray(block["reward"]))}, len(block))
        assert model.estimate(tensors)["reward"].numpy() == pytest.approx(found)


def test_the_state_goes_on_exactly_also_within_episodes() -> None:
    one = BoundedRewardNorm({"reward_discount": 0.5})
    for block in BLOCKS[:2]:
        one.collect_data(block)
        one.train()
    two = BoundedRewardNorm({"reward_discount": 0.5})
    two.load_state_dict(one.state_dict())
    for model in (one, two):
        model.collect_data(BLOCKS[2])
        model.train()
    found = [model.estimate(BLOCKS[2])["reward"].tolist() for model in (one, two)]
    assert found[0] == found[1]
    assert float(two.state_dict()["scale"]["norm"]["largest"]) == 55.0


def test_rewards_that_are_not_finite_change_nothing() -> None:
    model = BoundedRewardNorm()
    for reward in ([1.0, -2.0], [float("inf"), 1.0], [float("nan"), 1.0]):
        model.collect_data(seen(reward, [0, 1], [1, 1]))
        model.train()
    wanted = max((np.var([1, -2]) + 1e-8) ** 0.5, 2 / 5)
    assert model.estimate(BLOCKS[0])["reward"][0] == pytest.approx(1 / wanted)


def test_the_bound_is_that_of_the_atoms() -> None:
    given = {"env": "pendulum", "policy": {"type": "flash_sac"}}
    overrides = ["policy.model.v_min=-2.0", "policy.model.v_max=2.0"]
    compiled = compile_config(given, overrides=overrides)
    model: Any = compiled.policy.reward_model
    assert (model.type, model.max_return) == ("bounded_reward_norm", 2.0)
    assert model.reward_discount == compiled.policy.discount_factor
    overrides = ["policy.reward_model=null"]
    compiled = compile_config(given, overrides=overrides)
    assert compiled.policy.reward_model is None


def test_a_run_sees_each_step_once_also_those_of_the_warm_up(tmp_path: Path) -> None:
    outcome = launch(
        env="pendulum", policy="flash_sac", seed=0, exp_name=str(tmp_path / "run"),
        max_env_step=80,
        overrides=[
            "pipeline.logger=[]", "policy.learn.batch_size=8", "policy.collect.n_sample=4",
            "policy.collect.random_collect_size=40", "policy.nstep=3", "env.collector_env_num=4",
            "policy.model.critic_hidden_size_list=[8]", "env.n_evaluator_episode=1",
            "env.evaluator_env_num=1", "env.stop_value=inf",
        ],
    )  # fmt: skip
    parts: Any = outcome.run.parts
    state = parts["reward_model"].state_dict()["scale"]
    assert outcome.run.result.env_step == int(state["norm"]["count"])
    assert len(state["env_id"]) == 4
