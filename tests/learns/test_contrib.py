"""Algorithms of dicore-contrib solve small tasks with their presets, on three seeds each."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.offline_data import make as make_offline_data
from dicore import collect_demo_data
from dicore.run.launch import launch
from dicore_contrib import write_maze_demonstrations

BUDGETS = {
    "cartpole_ars": 100_000,
    "cartpole_mrq": 8_000,
    "pendulum_mrq": 8_000,
    "pendulum_bro": 6_000,
    "pendulum_fast_td3": 40_000,
    "pendulum_flash_sac": 40_000,
    "pendulum_pomdp_recurrent_sac": 30_000,
    "pendulum_pomdp_recurrent_td3": 30_000,
}
"""Env steps to reach the stop value, by preset."""


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("preset", BUDGETS)
def test_it_is_solved(preset: str, seed: int, tmp_path: Path) -> None:
    outcome = launch(
        preset, seed=seed, exp_name=str(tmp_path / "run"), max_env_step=BUDGETS[preset],
        overrides=["pipeline.logger=[]"],
    )  # fmt: skip
    assert outcome.run.result.stop


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_diffusion_policy_swings_up_as_the_expert(seed: int, tmp_path: Path) -> None:
    """By the preset `pendulum_diffusion_policy`, from 50 episodes of `pendulum_fast_td3`."""
    launch(
        "pendulum_fast_td3", seed=0, exp_name=str(tmp_path / "x"), max_env_step=40_000,
        overrides=["env.stop_value=-150", "pipeline.logger=[]"],
    )  # fmt: skip
    path = tmp_path / "demo.npz"
    collect_demo_data(tmp_path / "x", 0, expert_data_path=path, n_episode=50, greedy=True)
    outcome = launch(
        "pendulum_diffusion_policy", seed=seed, exp_name=str(tmp_path / "run"),
        overrides=[f"pipeline.dataset.path={path}", "env.stop_value=-180", "pipeline.logger=[]"],
    )  # fmt: skip
    assert outcome.run.result.stop, outcome.run.result.best_return


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_qgpo_is_better_than_what_it_was_shown(seed: int, tmp_path: Path) -> None:
    """By the preset `pendulum_qgpo`, from random, medium and expert episodes; `bc` imitates all."""
    make_offline_data(tmp_path, "pendulum")
    found = []
    for preset in ("pendulum_qgpo", "pendulum_bc"):
        outcome = launch(
            preset, seed=seed, exp_name=str(tmp_path / preset),
            overrides=[
                f"pipeline.dataset.path={tmp_path / 'pendulum_mixed.npz'}", "pipeline.logger=[]",
                "pipeline.max_train_iter=6000", "policy.eval.evaluator.eval_freq=3000",
                "env.stop_value=-180", "env.n_evaluator_episode=10",
            ],
        )  # fmt: skip
        found.append(outcome.run.result.best_return)
    assert found[0] >= found[1] + 250


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_procedure_cloning_solves_mazes_that_behavioural_cloning_does_not(
    seed: int, tmp_path: Path
) -> None:
    """From searches in 50 mazes; evaluations draw others."""
    write_maze_demonstrations(tmp_path / "demo.npz", 50)
    found = []
    for name in ("procedure_cloning", "bc"):
        outcome = launch(
            env="maze", policy=name, seed=seed, exp_name=str(tmp_path / name),
            overrides=[
                f"pipeline.dataset.path={tmp_path / 'demo.npz'}", "pipeline.logger=[]",
                "pipeline.max_train_iter=3000", "policy.eval.evaluator.eval_freq=500",
            ],
        )  # fmt: skip
        found.append(outcome.run.result.best_return)
    assert found[0] >= 0.95
    assert found[1] <= 0.5


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pdeil_learns_from_ten_episodes(seed: int, tmp_path: Path) -> None:
    """Rewards of the environment are not used but in evaluations."""
    launch(
        env="cartpole", policy="dqn", seed=0, exp_name=str(tmp_path / "x"), max_env_step=10_000,
        overrides=["pipeline.logger=[]"],
    )  # fmt: skip
    path = tmp_path / "demo.npz"
    collect_demo_data(tmp_path / "x", 0, expert_data_path=path, n_episode=10, greedy=True)
    outcome = launch(
        env="cartpole", policy="ppo", seed=seed, exp_name=str(tmp_path / "run"),
        max_env_step=60_000,
        overrides=[
            "pipeline.logger=[]", "policy.reward_model=pdeil",
            f"policy.reward_model.expert.path={path}",
        ],
    )  # fmt: skip
    assert outcome.run.result.stop
