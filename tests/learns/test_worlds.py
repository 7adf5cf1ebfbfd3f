"""Latent world models solve small tasks within few env steps, on three seeds each."""

from __future__ import annotations

from pathlib import Path

import pytest

from dicore.run.launch import launch

TASKS = {"cartpole": 20_000, "pendulum": 20_000}
"""Env steps to reach the stop value, by environment; the presets are `NAME_dreamer`."""


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_tdmpc2_swings_the_pendulum_up(seed: int, tmp_path: Path) -> None:
    """By its preset, `pendulum_tdmpc2`."""
    outcome = launch(
        env="pendulum",
        policy="tdmpc2",
        seed=seed,
        exp_name=str(tmp_path / "run"),
        max_env_step=6_000,
        overrides=["pipeline.logger=[]"],
    )
    assert outcome.run.result.stop


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("env", TASKS)
def test_dreamer_solves_it(env: str, seed: int, tmp_path: Path) -> None:
    outcome = launch(
        env=env,
        policy="dreamer",
        seed=seed,
        exp_name=str(tmp_path / "run"),
        max_env_step=TASKS[env],
        overrides=["pipeline.logger=[]"],
    )
    assert outcome.run.result.stop
