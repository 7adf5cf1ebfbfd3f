"""Presets are solved by several processes as by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dicore.run.launch import launch

BUDGETS = {
    ("cartpole", "dqn"): 20_000,
    ("cartpole", "ppo"): 60_000,
    ("pendulum", "sac"): 12_000,
}


@pytest.mark.ray
@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("env", "policy"), [*BUDGETS])
def test_it_learns(env: str, policy: str, seed: int, tmp_path: Path) -> None:
    chosen = {"mode": "parallel", "env": env, "policy": policy, "seed": seed}
    result = launch(
        **chosen,
        max_env_step=BUDGETS[env, policy],
        exp_name=str(tmp_path / "run"),
        overrides=["pipeline.logger=[]", "pipeline.system.heartbeat_timeout=60"],
    ).run.result
    assert result.stop, result
