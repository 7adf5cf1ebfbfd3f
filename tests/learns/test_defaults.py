"""FEATURES B26: the documents' defaults, without a preset, reach the documents' return."""

from __future__ import annotations

from pathlib import Path

import pytest

from dicore.run.launch import launch

SLOW = (pytest.mark.slow, pytest.mark.timeout(300))


@pytest.mark.learns
@pytest.mark.parametrize("seed", [pytest.param(0, marks=SLOW), pytest.param(1, marks=SLOW), 2])
def test_cartpole_reaches_195(seed: int, tmp_path: Path) -> None:
    """Within 100k env steps of episodes of 200; 5k to 45k were seen, since epsilon falls slowly."""
    outcome = launch(
        env="CartPole-v1",
        policy="dqn",
        seed=seed,
        exp_name=str(tmp_path / "run"),
        max_env_step=100_000,
        overrides=[
            'env.make_kwargs={"max_episode_steps": 200}',
            "env.stop_value=195",
            "pipeline.logger=[]",
        ],
    )
    assert outcome.run.result.stop
