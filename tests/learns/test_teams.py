"""Teams reach what their algorithms reach in the papers, and in games no more, on several seeds.

In games all actions are drawn uniformly: an algorithm is judged by what it makes of all of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dicore.run.launch import launch
from dicore_tools.evaluation.evaluate import evaluate

UNIFORM = ("policy.other.eps.start=1", "policy.other.eps.end=1")
GAMES = {
    # Rashid et al. 2018, section 5.1
    ("two_step_game", "vdn"): (7, 6_000, ()),
    ("two_step_game", "qmix"): (8, 6_000, ()),
    # Son et al. 2019, table 1; Rashid et al. 2020, figure 2
    ("matrix_game", "vdn"): (0, 6_000, ("env.game=qtran",)),
    ("matrix_game", "qmix"): (0, 6_000, ("env.game=qtran",)),
    ("matrix_game", "qtran"): (8, 6_000, ("env.game=qtran",)),
    ("matrix_game", "wqmix"): (8, 6_000, ("env.game=qtran", "policy.learn.alpha=0.1")),
}
"""Returns of the last policies, env steps, and further options, by game and policy."""


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("env", "policy"), GAMES)
def test_games_end_as_in_the_papers(env: str, policy: str, seed: int, tmp_path: Path) -> None:
    value, budget, more = GAMES[env, policy]
    launch(
        env=env,
        policy=policy,
        seed=seed,
        exp_name=str(tmp_path / "run"),
        max_env_step=budget,
        overrides=[*UNIFORM, *more, "env.stop_value=inf", "pipeline.logger=[]"],
    )
    found = evaluate(tmp_path / "run", n_episode=5, seed=100, load_path="final")
    assert found.mean_return == pytest.approx(value)


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [0, 1])
def test_mappo_forages_together(seed: int, tmp_path: Path) -> None:
    """Papoudakis et al. 2021: a return of 1 of Foraging-8x8-2p-2f-coop, of actions as drawn."""
    pytest.importorskip("lbforaging")
    launch(
        env="lbforaging",
        policy="mappo",
        seed=seed,
        exp_name=str(tmp_path / "run"),
        max_env_step=800_000,
        overrides=["policy.eval.evaluator.eval_freq=1000000", "pipeline.final_eval=false"],
    )
    lines = (tmp_path / "run" / "log" / "metrics.jsonl").read_text("utf-8").splitlines()
    told = [json.loads(line) for line in lines]
    returns = [row["collector/reward_mean"] for row in told if "collector/reward_mean" in row]
    assert sum(returns[-5:]) / 5 >= 0.9
