"""Every preset of ours reaches its environment's stop value, on three seeds.

make learns        # the slow ones too: about 15 minutes on one core
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dicore.run.launch import launch
from dicore_registry import default
from dicore_tools.evaluation.evaluate import evaluate


class Promise(NamedTuple):
    """What a preset keeps.

    Args:
        budget: Env steps within which it reaches the stop value of its environment; twice what the
            slowest of the seeds tried needed.
        floor: Mean return that the best checkpoint has on 20 other episodes. A mean of 10 that
            crosses the stop value is partly luck, so the floor lies below.
        marks: Of the test.
    """

    budget: int
    floor: float
    marks: tuple[pytest.MarkDecorator, ...] = ()


SLOW = (pytest.mark.slow, pytest.mark.timeout(1800))
PRESETS = {
    "cartpole_dqn": Promise(10_000, 450),
    "acrobot_dqn": Promise(30_000, -150),
    "mountain_car_dqn": Promise(250_000, -130, SLOW),
    "lunarlander_dqn": Promise(160_000, 120, SLOW),
}
CASES = [
    pytest.param(name, seed, id=f"{name}-{seed}", marks=promise.marks)
    for name, promise in PRESETS.items()
    for seed in (0, 1, 2)
]


@pytest.mark.learns
@pytest.mark.parametrize(("name", "seed"), CASES)
def test_a_preset_reaches_the_stop_value(name: str, seed: int, tmp_path: Path) -> None:
    env, _, policy = name.rpartition("_")
    outcome = launch(
        env=env,
        policy=policy,
        seed=seed,
        exp_name=str(tmp_path / "run"),
        max_env_step=PRESETS[name].budget,
        overrides=["pipeline.logger=[]"],
    )
    assert outcome.run.result.stop
    fresh = evaluate(tmp_path / "run", n_episode=20, seed=100)
    assert fresh.mean_return >= PRESETS[name].floor


def test_no_preset_of_ours_goes_untested() -> None:
    found: Any = default().entries("preset")
    ours = {each.name for each in found if each.dist == "dicore-contrib-envs"}
    assert ours == set(PRESETS)
