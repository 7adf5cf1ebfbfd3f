"""DQN on categorical observations: the lake without slipping is crossed every time."""

from __future__ import annotations

from pathlib import Path

import pytest

from dicore.run.launch import launch


@pytest.mark.learns
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_dqn_crosses_the_frozen_lake(seed: int, tmp_path: Path) -> None:
    """Every evaluation episode returns 1 within 15k env steps (2k to 4k are usual)."""
    outcome = launch(
        env="FrozenLake-v1",
        policy="dqn",
        seed=seed,
        exp_name=str(tmp_path / "run"),
        max_env_step=15_000,
        overrides=[
            'env.make_kwargs={"is_slippery": false}',
            "env.stop_value=1",
            "policy.other.eps.decay=3000",
            "policy.learn.update_per_collect=4",
            "pipeline.logger=[]",
        ],
    )
    assert outcome.run.result.stop
