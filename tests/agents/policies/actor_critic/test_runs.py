"""Runs in threads and processes, and what commands make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.cli import main
from dicore.run.launch import launch

HOME = "tests.agents.policies.actor_critic.games"
FEW = ("policy.collect.n_sample=40", "env.collector_env_num=4", "env.evaluator_env_num=2",
       "env.n_evaluator_episode=2", "env.stop_value=inf", "pipeline.logger=[]")  # fmt: skip


def train(name: str, env: str, folder: Path, *more: str, **wishes: Any) -> Any:
    return launch(
        env=f"{HOME}:{env}", policy=name, seed=0, exp_name=str(folder), max_env_step=80,
        overrides=[*FEW, *more], **wishes,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "name", "more"),
    [
        ("dist", "mappo", ["pipeline.system.start=threads"]),
        pytest.param("dist", "coma", ["pipeline.system.start=threads"], marks=pytest.mark.soak),
        pytest.param(
            "parallel", "happo", ["pipeline.system.collector_num=1"], marks=pytest.mark.soak
        ),
    ],
)
def test_collectors_and_learner_apart(
    mode: str, name: str, more: list[str], tmp_path: Path
) -> None:
    run = train(name, "Mortals", tmp_path / "run", *more, mode=mode).run
    assert run.result.env_step >= 80
    assert run.result.train_iter > 4


@pytest.mark.parametrize(
    ("name", "env"),
    [
        pytest.param("mappo", "Mortals", marks=pytest.mark.soak),
        ("happo", "MovingMortals"),
        pytest.param("coma", "Mortals", marks=pytest.mark.soak),
    ],
)
def test_commands_take_a_run(
    name: str,
    env: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Returns are summed over the agents, as in training; an exported file acts as the policy."""
    monkeypatch.chdir(tmp_path)
    best = train(name, env, tmp_path / "run").run.result.best_return
    assert main(["eval", "run", "--trust", "-n", "2"]) == 0
    assert f"mean return {best:.2f}" in capsys.readouterr().out
    assert main(["enjoy", "run", "--trust", "-n", "1"]) == 0
    assert "1 episode" in capsys.readouterr().out
    assert main(["export", "run", "--trust", "-o", "policy.pt2"]) == 0
    assert "actions" in capsys.readouterr().out
    assert main(["plot", "run", "-o", "curve.png"]) == 0
    assert Path("curve.png").stat().st_size > 0


@pytest.mark.parametrize("name", ["mappo", "happo", pytest.param("ippo", marks=pytest.mark.soak)])
def test_acting_by_the_network_equals_acting_by_numpy(name: str, tmp_path: Path) -> None:
    """Up to rounding, the runs end with the same parameters."""
    few = ["policy.learn.epoch_per_collect=1", "policy.learn.optimizer=sgd"]
    found = [
        train(name, "Mortals", tmp_path / each, f"policy.collect.act_by_numpy={each}", *few)
        for each in ("true", "false")
    ]
    one, two = (each.policy.get_attribute("model").state_dict() for each in found)
    for key, each in one.items():
        np.testing.assert_allclose(each, two[key], rtol=1e-3, atol=1e-4)
