"""DQN solves CartPole from what a half-trained policy did, with random actions among its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from dicore import collect_demo_data
from dicore.run.launch import launch

pytestmark = [pytest.mark.learns, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("seeds", [[0], [1, 2]], ids=str)
def test_three_seeds_learn_from_recorded_data(
    seeds: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    launch(
        env="cartpole", policy="dqn", seed=0, exp_name="half", max_env_step=1500,
        overrides=["env.stop_value=inf"],
    )  # fmt: skip
    collect_demo_data("half", 0, 10_000, "demo.npz", "final", eps=0.3)
    for seed in seeds:
        outcome = launch(
            env="cartpole", policy="dqn", mode="serial_offline", seed=seed, exp_name=f"off{seed}",
            max_train_iter=6000,
            overrides=["pipeline.dataset.type=npz", "pipeline.dataset.path=demo.npz"],
        )  # fmt: skip
        assert outcome.run.result.stop, f"seed {seed}: {outcome.run.result.best_return}"
