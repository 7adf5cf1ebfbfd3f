"""DQN on categorical observations, by the ids of gymnasium and without a preset."""

from __future__ import annotations

from pathlib import Path

import pytest

from dicore.run.launch import launch
from dicore_tools.evaluation.evaluate import evaluate

LAKE = [
    'env.make_kwargs={"is_slippery": false}',
    "env.stop_value=1",
    "policy.other.eps.decay=3000",
    "policy.learn.update_per_collect=4",
]
TAXI = [
    "env.stop_value=7",
    "env.n_evaluator_episode=100",  # one start of 300 without a way home costs up to 2000
    "policy.model.encoder_hidden_size_list=[]",  # a table: one weight per state and action
    "policy.learn.batch_size=256",
    "policy.learn.learning_rate=0.02",
    "policy.learn.update_per_collect=32",
    "policy.collect.n_sample=64",
    "policy.eval.evaluator.eval_freq=1000",
    "policy.other.replay_buffer.replay_buffer_size=100000",
    'policy.other.eps={"type": "linear", "start": 1.0, "end": 0.05, "decay": 15000}',
]


@pytest.mark.learns
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_lake_is_crossed_every_time(seed: int, tmp_path: Path) -> None:
    """Every evaluation episode returns 1 within 15k env steps (2k to 4k are usual)."""
    outcome = launch(
        env="FrozenLake-v1",
        policy="dqn",
        seed=seed,
        exp_name=str(tmp_path / "run"),
        max_env_step=15_000,
        overrides=[*LAKE, "pipeline.logger=[]"],
    )
    assert outcome.run.result.stop
    assert evaluate(tmp_path / "run", n_episode=20, seed=100).mean_return == 1


@pytest.mark.learns
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_taxi_takes_its_passengers_home(seed: int, tmp_path: Path) -> None:
    """100 episodes return 7 on the mean (8 is the best there is) within 60k env steps; 17k to 21k
    were seen.
    """
    outcome = launch(
        env="Taxi-v4",
        policy="dqn",
        seed=seed,
        exp_name=str(tmp_path / "run"),
        max_env_step=60_000,
        overrides=[*TAXI, "pipeline.logger=[]"],
    )
    assert outcome.run.result.stop
