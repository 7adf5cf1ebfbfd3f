"""Runs: resumed ones, in threads and processes, and what commands make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dicore.cli import main
from dicore.run.launch import launch
from tests.agents.policies.continuous.games import SMALL
from tests.soak import SOAK, some

HOME = "tests.agents.policies.continuous.games"
FEW = (*SMALL, "policy.learn.batch_size=16", "policy.collect.random_collect_size=40",
       "env.collector_env_num=4", "env.evaluator_env_num=2", "env.n_evaluator_episode=2",
       "env.stop_value=inf", "pipeline.logger=[]")  # fmt: skip
ALL = [("maddpg", "Mortal"), ("matd3", "Mortal"), ("masac", "Mortal"),
       ("maddpg", "Choosing"), ("masac", "Choosing")]  # fmt: skip


def train(name: str, env: str, folder: Path, *more: str, limit: int = 200, **wishes: Any) -> Any:
    if wishes.pop("resume", False):
        return launch(resume=str(folder), trust=True, max_env_step=limit)
    return launch(
        env=f"{HOME}:{env}", policy=name, seed=0, exp_name=str(folder), max_env_step=limit,
        overrides=[*FEW, *more], **wishes,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "env"), some(ALL, 3, "resumed"))
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, env: str, tmp_path: Path) -> None:
    """With agents that die, masks, a state, rewards of each agent, and returns of two steps."""
    whole = train(name, env, tmp_path / "whole", "policy.nstep=2", limit=100)
    train(name, env, tmp_path / "half", "policy.nstep=2", limit=60)
    rest = train(name, env, tmp_path / "half", resume=True, limit=100)
    assert rest.run.result.train_iter == whole.run.result.train_iter > 50
    one, two = (each.policy.get_attribute("model").state_dict() for each in (whole, rest))
    assert all(each.isfinite().all() for each in one.values())
    assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize(
    ("mode", "more"),
    [
        ("dist", ["pipeline.system.start=threads"]),
        pytest.param("parallel", ["pipeline.system.collector_num=1"], marks=pytest.mark.soak),
    ],
)
def test_collectors_and_learner_apart(mode: str, more: list[str], tmp_path: Path) -> None:
    run = train("masac", "Choosing", tmp_path / "run", *more, mode=mode, limit=100).run
    assert run.result.env_step >= 100
    assert run.result.train_iter > 20


def test_priorities_and_weights_of_samples_work(tmp_path: Path) -> None:
    options = ["policy.priority=true", "policy.priority_IS_weight=true"]
    run = train("matd3", "Mortal", tmp_path / "run", *options, limit=80).run
    assert run.result.train_iter > 20


@pytest.mark.parametrize(("env", "kind"), [("Mortal", "ts"), ("Choosing", "pt2")])
def test_commands_take_a_run(
    env: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Returns are summed over the agents, as in training; an exported file acts as the policy."""
    monkeypatch.chdir(tmp_path)
    best = train("masac", env, tmp_path / "run", limit=60).run.result.best_return
    assert main(["eval", "run", "--trust", "-n", "2"]) == 0
    assert f"mean return {best:.2f}" in capsys.readouterr().out
    assert main(["enjoy", "run", "--trust", "-n", "1"]) == 0
    assert "1 episode" in capsys.readouterr().out
    for suffix in ("pt2", "ts") if SOAK else (kind,):
        assert main(["export", "run", "--trust", "-o", f"policy.{suffix}"]) == 0
        assert "actions" in capsys.readouterr().out
    assert main(["plot", "run", "-o", "curve.png"]) == 0
    assert Path("curve.png").stat().st_size > 0


def test_acting_by_the_network_equals_acting_by_numpy(tmp_path: Path) -> None:
    """Up to rounding, the runs end with the same parameters."""
    found = [
        train(
            "maddpg", "Choosing", tmp_path / each, f"policy.collect.act_by_numpy={each}", limit=60
        )
        for each in ("true", "false")
    ]
    one, two = (each.policy.get_attribute("model").state_dict() for each in found)
    for key, each in one.items():
        np.testing.assert_allclose(each, two[key], rtol=1e-3, atol=1e-4)
