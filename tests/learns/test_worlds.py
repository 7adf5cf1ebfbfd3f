"""Latent world models solve small tasks within few env steps, on three seeds each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.data import EnvBatch
from dicore.run.launch import launch
from dicore_worlds import GAMES

MOVES = 40_000
"""Moves after which tic-tac-toe is no longer lost."""
TASKS = {"cartpole": 20_000, "pendulum": 20_000}
"""Env steps to reach the stop value, by environment; the presets are `NAME_dreamer`."""


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_tdmpc2_swings_the_pendulum_up(seed: int, tmp_path: Path) -> None:
    """By the preset `pendulum_tdmpc2`."""
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


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", ["gumbel_muzero", "muzero"])
def test_muzero_solves_cartpole(kind: str, seed: int, tmp_path: Path) -> None:
    """By the presets `cartpole_gumbel_muzero` and `cartpole_muzero`."""
    outcome = launch(
        env="cartpole",
        policy=kind,
        seed=seed,
        exp_name=str(tmp_path / "run"),
        max_env_step=25_000,
        overrides=["pipeline.logger=[]"],
    )
    assert outcome.run.result.stop


def results(mode: Any, side: int) -> Counter[float]:
    """Returns how often a side wins (1), draws and loses (-1) against all moves of the other."""
    rules = GAMES["tictactoe"]
    state, found, player = rules.initial(1), Counter[float](), 0
    while len(state):
        legal = rules.legal(state)
        row, action = np.nonzero(legal)
        if player == side:
            seen = {"obs": rules.observe(state), "action_mask": legal.astype(np.int8)}
            seen["player"] = np.full(len(state), player)
            acted = mode.forward(EnvBatch(np.arange(len(state)), seen))
            row, action = np.arange(len(state)), EnvBatch.of(acted).value["action"]
        moved = rules.step(state[row], action)
        sign = 1 if player == side else -1
        found.update((sign * moved.reward[moved.over]).tolist())
        state, player = moved.state[~moved.over], 1 - player
    return found


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_alphazero_never_loses_tictactoe(seed: int, tmp_path: Path) -> None:
    """On both sides, against all lines of play."""
    outcome = launch(
        "tictactoe_alphazero",
        seed=seed,
        exp_name=str(tmp_path / "run"),
        max_env_step=MOVES,
        overrides=["pipeline.logger=[]", "env.stop_value=.inf"],
    )
    for side in (0, 1):
        found = results(outcome.policy.eval_mode, side)
        assert found[1.0] > 0
        assert found[-1.0] == 0
