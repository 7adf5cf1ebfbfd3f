"""Settings that a policy anneals, and the warm-up, in whole runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.launch import launch
from dicore.run.log import read_metrics
from dicore.run.request import TrainRequest, compile_request
from dicore_plugins.middleware import StepCollector
from dicore_plugins.policies import DQNPolicy


def test_settings_of_evaluation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of `get_setting_eval`, in the regular and in the final evaluation."""
    seen: list[dict[str, Any]] = []
    act = DQNPolicy._forward_eval

    def forward(self: DQNPolicy, obs: Any, info: Any = None) -> Any:
        if info not in seen:
            seen.append(info)
        return act(self, obs)

    monkeypatch.setattr(DQNPolicy, "_forward_eval", forward)
    monkeypatch.setattr(DQNPolicy, "_get_setting_eval", lambda self, info: {"info": dict(info)})
    overrides = [
        "env.stop_value=inf",
        "pipeline.logger=[]",
        "policy.eval.evaluator.eval_at_start=true",
        "policy.learn.update_per_collect=16",
    ]
    launch(
        env="cartpole", policy="dqn", seed=0, exp_name=str(tmp_path / "run"), max_env_step=700,
        overrides=overrides,
    )  # fmt: skip
    first, last = seen
    assert first == {"envstep": 0, "learner_step": 0}
    assert last["envstep"] >= 700
    assert last["learner_step"] > 0


def test_a_warm_up_that_the_budget_cut_is_finished_once_the_budget_is_raised(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[int] = []
    collect = StepCollector._collect_randomly

    def collected(self: StepCollector, size: int) -> Any:
        samples = collect(self, size)
        seen.append(len(samples))
        return samples

    monkeypatch.setattr(StepCollector, "_collect_randomly", collected)
    overrides = ["env.stop_value=inf", "pipeline.logger=[]", "policy.nstep=1",
                 "policy.learn.update_per_collect=1"]  # fmt: skip
    folder = str(tmp_path / "run")
    launch(
        env="cartpole", policy="dqn", seed=0, exp_name=folder, max_env_step=304,
        overrides=overrides,
    )  # fmt: skip
    launch(resume=folder, max_env_step=1_000)
    assert seen == [304, 512 - 304]


def test_the_stop_value_ends_the_step_so_that_final_is_the_evaluated_policy(
    tmp_path: Path,
) -> None:
    """Nothing is collected or learned after the evaluation that ends training; resume goes on."""
    folder = tmp_path / "run"
    overrides = ["env.stop_value=40", "pipeline.logger=[]", "policy.eval.evaluator.eval_freq=20"]
    launch(
        env="cartpole", policy="dqn", seed=0, exp_name=str(folder), max_env_step=4_000,
        overrides=overrides,
    )  # fmt: skip
    store = CheckpointStore(folder / "ckpt")
    best, final = store.load("best"), store.load("final")
    assert best["collector"]["envstep"] == final["collector"]["envstep"] > 0
    assert best["learner"]["last_iter"] == final["learner"]["last_iter"]
    tensors = final["learner"]["policy"]["model"]
    assert all(
        torch.equal(t, tensors[name]) for name, t in best["learner"]["policy"]["model"].items()
    )
    more = int(final["collector"]["envstep"]) + 200
    launch(resume=str(folder), max_env_step=more, overrides=["env.stop_value=inf"])
    assert store.load("final")["collector"]["envstep"] >= more


def test_a_last_evaluation_longer_than_the_training_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what leaves it out; no episode has ended that would tell how long they are."""
    monkeypatch.setattr("dicore_plugins.pipelines.ending._LITTLE_S", 0.0)
    given: dict[str, Any] = {"env": "pendulum", "policy": "td3", "seed": 0, "max_env_step": 80}
    options = ["pipeline.logger=[]", "env.n_evaluator_episode=2", "env.evaluator_env_num=2"]
    launch(**given, exp_name=str(tmp_path / "long"), overrides=options)
    said = (tmp_path / "long/log/run/run.txt").read_text()
    assert "last evaluation: 2 episodes, more than 160 env steps; Ctrl-C ends it and saves" in said
    (skip,) = re.findall(r"pipeline\.\w+=false", said)
    launch(**given, exp_name=str(tmp_path / "short"), overrides=[*options, skip])
    waits = "policy.learn.batch_size=256, policy.collect.random_collect_size=1000,"
    text = f"an update ({waits} policy.collect.n_sample=1; the buffer has 80 items)"
    for run in ("long", "short"):
        assert text in (tmp_path / run / "log/run/run.txt").read_text(), (
            "and why nothing is learned"
        )
    assert not (tmp_path / "short/log/metrics.jsonl").exists(), "nothing is evaluated"


def test_a_final_evaluation_that_was_due_is_not_made_again_by_a_resumed_run(
    tmp_path: Path,
) -> None:
    """Evaluations are those of a run that had the whole budget from the start."""
    options = ["env.stop_value=inf", "pipeline.logger=[]", "policy.eval.evaluator.eval_freq=8"]

    def train(name: str, budget: int) -> list[tuple[int, float]]:
        folder = tmp_path / name
        given: dict[str, Any] = {"resume": str(folder)}
        if not folder.exists():
            given = {"env": "cartpole", "policy": "ppo", "seed": 0, "exp_name": str(folder)}
            given["overrides"] = [*options, "policy.learn.epoch_per_collect=1"]
        launch(**given, max_env_step=budget)
        lines = read_metrics(folder / "log/metrics.jsonl")
        tag = "evaluator/return_mean"
        return [(line["train_iter"], line[tag]) for line in lines if tag in line]

    assert len(train("parts", 4_096)) == 2
    assert train("parts", 8_192) == train("whole", 8_192)


@pytest.mark.parametrize("policy", ["a2c", "pqn"])
def test_annealing_ends_with_the_budget(policy: str) -> None:
    def anneal(*overrides: str, budget: int | None = None) -> object:
        request = TrainRequest(
            env="acrobot", policy=policy, max_env_step=budget, overrides=overrides
        )
        return compile_request(request).policy.learn["anneal"]

    assert (anneal(), anneal(budget=500)) == (100_000, 500)
    assert anneal("policy.learn.anneal=70", budget=500) == 70


@pytest.mark.parametrize(("env", "policy"), [("acrobot", "dqn"), ("pendulum", "td3")])
def test_rates_that_count_updates_end_with_a_budget_of_updates(env: str, policy: str) -> None:
    request = TrainRequest(env=env, policy=policy, max_train_iter=500, preset=False)
    assert compile_request(request).policy.learn["learning_rate_decay"] == 500
