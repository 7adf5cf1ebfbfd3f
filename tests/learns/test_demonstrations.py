"""CartPole is solved from 10 episodes of an expert; Pendulum is played as well as by the expert."""

from __future__ import annotations

from pathlib import Path

import pytest

from dicore import collect_demo_data
from dicore.run.launch import launch

pytestmark = [pytest.mark.learns, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten episodes of CartPole with a return of 500."""
    folder = tmp_path_factory.mktemp("expert")
    launch(env="cartpole", policy="dqn", seed=0, exp_name=str(folder / "run"), max_env_step=20_000)
    path = folder / "demo.npz"
    collect_demo_data(folder / "run", 0, expert_data_path=path, n_episode=10, min_return=500)
    return str(path)


BUDGETS = {"bc": 0, "ibc": 0, "sqil": 6_000, "rbc": 6_000, "dqfd": 10_000, "bco": 10_000}
"""Env steps of "cartpole_bc", "cartpole_ibc", "cartpole_sqil", "cartpole_rbc", "cartpole_dqfd" and
"cartpole_bco"; those that learn offline have a budget of updates in their preset."""


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", BUDGETS)
def test_cartpole_from_ten_episodes(name: str, seed: int, shown: str, tmp_path: Path) -> None:
    budget = {"max_env_step": BUDGETS[name]} if BUDGETS[name] else {}
    outcome = launch(
        env="cartpole", policy=name, seed=seed, exp_name=str(tmp_path / "run"), **budget,
        overrides=[f"pipeline.dataset.path={shown}", "env.stop_value=450", "pipeline.logger=[]"],
    )  # fmt: skip
    assert outcome.run.result.stop, outcome.run.result.best_return


def test_a_memory_learns_from_few_demonstrations(tmp_path: Path) -> None:
    launch(env="t_maze", policy="r2d2", seed=5, exp_name=str(tmp_path / "x"), max_env_step=8_000)
    path = tmp_path / "demo.npz"
    collect_demo_data(tmp_path / "x", 0, expert_data_path=path, n_episode=20, min_return=3.5)
    outcome = launch(
        "t_maze_r2d3", seed=0, exp_name=str(tmp_path / "run"), max_env_step=3_000,
        overrides=[f"pipeline.dataset.path={path}", "pipeline.logger=[]"],
    )  # fmt: skip
    assert outcome.run.result.best_return is not None
    assert outcome.run.result.best_return > 2.5


@pytest.mark.parametrize("name", ["bc", "ibc"])  # "pendulum_bc" and "pendulum_ibc"
def test_pendulum_as_the_expert(name: str, tmp_path: Path) -> None:
    launch(env="pendulum", policy="sac", seed=0, exp_name=str(tmp_path / "x"), max_env_step=8_000)
    path = tmp_path / "demo.npz"
    collect_demo_data(tmp_path / "x", 0, expert_data_path=path, n_episode=50, greedy=True)
    outcome = launch(
        env="pendulum", policy=name, seed=0, exp_name=str(tmp_path / "run"),
        overrides=[f"pipeline.dataset.path={path}", "env.stop_value=-220", "pipeline.logger=[]"],
    )  # fmt: skip
    assert outcome.run.result.stop, outcome.run.result.best_return
