"""DQN without a preset: default options on CartPole, and categorical observations by env id."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dicore.run.launch import launch
from dicore_tools.evaluation.evaluate import evaluate


class Case(NamedTuple):
    """An env that reaches its stop value within a budget of env steps."""

    env: str
    budget: int
    overrides: list[str]
    returns: float | None = None
    """Mean return of 20 other episodes."""


CASES = {
    # FEATURES B26: the defaults reach 195 of 200 (5k to 45k env steps; epsilon falls slowly)
    "cartpole": Case(
        "CartPole-v1",
        100_000,
        ['env.make_kwargs={"max_episode_steps": 200}', "env.stop_value=195"],
    ),
    # every evaluation episode crosses the lake (2k to 4k env steps)
    "lake": Case(
        "FrozenLake-v1",
        15_000,
        [
            'env.make_kwargs={"is_slippery": false}',
            "env.stop_value=1",
            "policy.other.eps.decay=3000",
            "policy.learn.update_per_collect=4",
        ],
        returns=1,
    ),
    # a mean of 7 over 100 episodes (the best is 8; 17k to 21k env steps)
    "taxi": Case(
        "Taxi-v4",
        60_000,
        [
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
        ],
    ),
}
SLOW: Any = (pytest.mark.slow, pytest.mark.timeout(300))


@pytest.mark.learns
@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=SLOW if name == "cartpole" and seed < 2 else ())
        for name in CASES
        for seed in (0, 1, 2)
    ],
)
def test_the_stop_value_is_reached(name: str, seed: int, tmp_path: Path) -> None:
    env, budget, overrides, returns = CASES[name]
    outcome = launch(
        env=env,
        policy="dqn",
        seed=seed,
        exp_name=str(tmp_path / "run"),
        max_env_step=budget,
        overrides=[*overrides, "pipeline.logger=[]"],
    )
    assert outcome.run.result.stop
    if returns is not None:
        assert evaluate(tmp_path / "run", n_episode=20, seed=100).mean_return == returns
