"""DQN solves CartPole, on several seeds: the main job, from the preset to the result."""

from __future__ import annotations

from pathlib import Path

import pytest

from dicore.run.evaluate import evaluate
from dicore.run.launch import launch


@pytest.mark.learns
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_preset_solves_cartpole(seed: int, tmp_path: Path) -> None:
    """Mean return of 10 evaluation episodes >= 475 within 15k env steps (20 of 20 seeds did)."""
    outcome = launch(
        env="cartpole",
        policy="dqn",
        seed=seed,
        exp_name=str(tmp_path / "run"),
        max_env_step=15_000,
        overrides=["pipeline.logger=[]"],
    )
    assert outcome.run.result.stop
    fresh = evaluate(tmp_path / "run", n_episode=20, seed=100)
    assert fresh.mean_return >= 400, "the best checkpoint holds on fresh episodes"
