"""The documents' examples in async mode: counters, parameters, snapshots, resuming, Ctrl-C."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dicore.config import bind, compile_config
from dicore.interfaces.env import EnvSpec
from dicore.run.checkpoint_store import read_state
from dicore.run.env_factory import make_env_manager
from dicore.run.launch import launch
from dicore.run.log import read_metrics
from dicore.run.random import seed_everything
from dicore.run.run import Run
from dicore.task import OnlineRLContext, Task, task
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.evaluators import InteractionEvaluator
from dicore_plugins.executors.versions import ActingPolicy
from dicore_plugins.middleware import (
    CkptSaver,
    OffPolicyLearner,
    StepCollector,
    data_pusher,
    eps_greedy_handler,
    interaction_evaluator,
    multistep_trainer,
)
from dicore_plugins.policies import DQNPolicy, PPOPolicy

SMALL: dict[str, Any] = {
    "env": {"type": "cartpole", "collector_env_num": 2, "evaluator_env_num": 2,
            "n_evaluator_episode": 2, "stop_value": float("inf")},
    "policy": {"type": "dqn", "model": {"encoder_hidden_size_list": [8]},
               "learn": {"batch_size": 8, "update_per_collect": 2, "learner": {"hook": []}},
               "collect": {"n_sample": 8},
               "eval": {"evaluator": {"eval_freq": 6}}},
}  # fmt: skip

ON_POLICY: dict[str, Any] = {
    **SMALL,
    "policy": {"type": "ppo", "model": {"encoder_hidden_size_list": [8]},
               "learn": {"batch_size": 8, "epoch_per_collect": 2, "learner": {"hook": []}},
               "collect": {"n_sample": 16},
               "eval": {"evaluator": {"eval_freq": 6}}},
}  # fmt: skip


class Delayed:
    """Delays the calls of a middleware by random times."""

    def __init__(self, seed: int, most: float) -> None:
        self.random, self.most = random.Random(seed), most

    def __call__(self, fn: Any) -> Any:
        def delayed(ctx: Any) -> Any:
            time.sleep(self.random.random() * self.most)
            return fn(ctx)

        return delayed


def train(
    config: Any, folder: Path, *, async_mode: bool, steps: int = 8, seed: int = 0, most: float = 0.0
) -> SimpleNamespace:
    """Runs the documents' program for the config; returns counters and a hash of the result."""
    seed_everything(0)
    compiled = compile_config(config, seed=0, overrides=[f"exp_name={folder}"])
    envs = [make_env_manager(compiled.cfg.env, role, 0) for role in ("collector", "evaluator")]
    cfg = bind(compiled, EnvSpec.of(envs[0])).cfg
    on_policy = cfg.policy.on_policy
    policy: Any = (PPOPolicy if on_policy else DQNPolicy)(cfg.policy)
    buffer_ = NaiveReplayBuffer({})
    with task.start(async_mode=async_mode, ctx=OnlineRLContext()):
        task.use(interaction_evaluator(cfg, policy.eval_mode, envs[1]))
        if on_policy:
            task.use(StepCollector(cfg, policy.collect_mode, envs[0]))
            task.use(multistep_trainer(cfg, policy.learn_mode))
        else:
            task.use(eps_greedy_handler(cfg))
            task.use(StepCollector(cfg, policy.collect_mode, envs[0]))
            task.use(data_pusher(cfg, buffer_))
            task.use(OffPolicyLearner(cfg, policy.learn_mode, buffer_))
        task.use(CkptSaver(cfg, policy, train_freq=4))
        task.use_wrapper(Delayed(seed, most))
        task.run(max_step=steps)
        ctx: Any = task.ctx
        names = ("total_step", "env_step", "env_episode", "train_iter")
        counters = {name: getattr(ctx, name) for name in names}
        found = SimpleNamespace(**counters, stored=buffer_.count(), last_eval=ctx.last_eval_iter)
    for env in envs:
        env.close()
    state = b"".join(each.numpy().tobytes() for each in policy._model.state_dict().values())
    found.parameters = hashlib.sha256(state).hexdigest()
    return found


def counters(found: SimpleNamespace) -> tuple[int, ...]:
    return found.total_step, found.env_step, found.train_iter, found.stored


@pytest.mark.parametrize("config", [SMALL, ON_POLICY], ids=["off_policy", "on_policy"])
@pytest.mark.parametrize("runs", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_counters_are_those_of_a_serial_run_and_parameters_do_not_depend_on_timing(
    config: Any, runs: int, tmp_path: Path
) -> None:
    serial = train(config, tmp_path / "serial", async_mode=False)
    found = [
        train(config, tmp_path / str(seed), async_mode=True, seed=seed, most=0.004)
        for seed in range(runs)
    ]
    assert {counters(each) for each in found} == {counters(serial)}
    assert len({each.parameters for each in found}) == 1
    assert found[0].last_eval >= serial.last_eval
    saved = [
        {path.name for path in (tmp_path / name / "ckpt").iterdir()} for name in ("serial", "0")
    ]
    assert saved[0] == saved[1] >= {"best", "final"}


def test_a_copy_acts_by_the_version_it_is_told() -> None:
    policy = DQNPolicy({}, model=torch.nn.Linear(3, 2))
    acting = ActingPolicy.of(policy.collect_mode, "collect", 1)
    assert acting is not None
    live, copied = policy._model, acting.mode.forward.__self__._model
    for step in range(5):
        with torch.no_grad():
            live.weight.fill_(step)
        acting.publish(step)
    for step, wanted in ((3, 3), (4, 4), (9, 4), (0, 2)):
        acting.adopt(step)
        assert copied.weight.unique().tolist() == [wanted]
    acting.restart(7)
    acting.adopt(0)
    assert copied.weight.unique().tolist() == [4]


def test_a_policy_that_cannot_be_copied_takes_turns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cfg = compile_config(SMALL, seed=0, overrides=[f"exp_name={tmp_path}"])
    env = make_env_manager(cfg.env, "collector", 0)
    cfg = bind(cfg, EnvSpec.of(env)).cfg  # type: ignore[assignment]
    policy, running = DQNPolicy(cfg.policy), []
    mode = policy.collect_mode

    def forward(obs: Any, **kwargs: Any) -> Any:
        running.append("act")
        assert "learn" not in running[-2:]
        return mode.forward(obs, **kwargs)

    def learn(data: Any, **kwargs: Any) -> Any:
        running.append("learn")
        time.sleep(0.002)
        running.append("learnt")
        return {"total_loss": 0.0}

    buffer_ = NaiveReplayBuffer({})
    with Task().start(True, ctx=OnlineRLContext()) as own:
        own.use(StepCollector(cfg, mode._replace(forward=forward), env))
        own.use(data_pusher(cfg, buffer_))
        own.use(OffPolicyLearner(cfg, policy.learn_mode._replace(forward=learn), buffer_))
        own.run(max_step=5)
    env.close()
    assert running.count("learn") == 10
    assert "take turns" in caplog.text


# ---- a whole run


WISHES: dict[str, Any] = {
    "env": "cartpole", "policy": "dqn", "seed": 0, "max_env_step": 400,
    "overrides": [
        "pipeline.async_mode=true", "pipeline.logger=[]", "env.n_evaluator_episode=2",
        "env.evaluator_env_num=1", "policy.eval.evaluator.eval_freq=60",
        "policy.collect.random_collect_size=64", "policy.learn.batch_size=16",
        "policy.learn.learner.hook.save_ckpt_after_iter=60",
    ],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


def learnt(folder: Path) -> Any:
    return read_state(folder / "ckpt" / "final")


def test_a_run_logs_its_lag_and_is_resumed(folder: Path) -> None:
    launch(exp_name=str(folder), **WISHES)
    lines = list(read_metrics(folder / "log" / "metrics.jsonl"))
    lags = [line["async/lag/steps"] for line in lines if "async/lag/steps" in line]
    assert lags
    assert set(lags) == {1}
    assert any("evaluator/return_mean" in line for line in lines)
    assert (folder / "ckpt" / "best").is_dir()
    first = learnt(folder)
    outcome = launch(exp_name=str(folder), exist="resume", **{**WISHES, "max_env_step": 800})
    assert outcome is not None
    assert learnt(folder)["collector"]["envstep"] > first["collector"]["envstep"] >= 400


def evaluated(folder: Path) -> list[tuple[Any, ...]]:
    """Returns what evaluations logged, and what was trained, without times."""
    return sorted(
        (name, line["train_iter"], line["step"], value)
        for line in read_metrics(folder / "log" / "metrics.jsonl")
        for name, value in line.items()
        if name.startswith(("evaluator/return", "learner/"))
    )


def result_of(folder: Path) -> Any:
    return json.loads((folder / "run.json").read_text())["result"]


def best_of(folder: Path) -> Any:
    found = read_state(folder / "ckpt" / "best")
    return found["evaluator"]["best_return"], found["learner"]["last_iter"]


@pytest.mark.parametrize("async_mode", [True, False])
def test_a_stop_value_that_was_reached_before_a_kill_is_not_missed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, async_mode: bool
) -> None:
    """RELIABILITY C16: the run ends as it would have, and once more ends at once."""
    copies: list[Path] = []
    save = Run.save_checkpoint

    def copying(run: Run, name: str, state: Any = None) -> Any:
        made = save(run, name, state)
        if made is not None and (name == "final" or name.startswith("iteration_")):
            copies.append(tmp_path / f"{name}_{len(copies)}")
            shutil.copytree(run.folder.path, copies[-1])
        return made

    monkeypatch.setattr(Run, "save_checkpoint", copying)
    wishes = {**WISHES, "max_env_step": 512, "overrides": [
        *WISHES["overrides"], "env.stop_value=8.5", "policy.eval.evaluator.eval_freq=20",
        "policy.learn.learner.hook.save_ckpt_after_iter=20", "policy.collect.n_sample=16",
        "policy.learn.update_per_collect=10", f"pipeline.async_mode={str(async_mode).lower()}",
    ]}  # fmt: skip
    launch(exp_name=str(folder), **wishes)
    monkeypatch.setattr(Run, "save_checkpoint", save)
    whole = result_of(folder)
    assert whole["stop"]
    assert len(copies) >= 2
    for copy in copies[-2:]:
        launch(resume=str(copy))
        found = result_of(copy)
        assert (found["stop"], found["best_return"]) == (True, whole["best_return"])
        assert found["train_iter"] == whole["train_iter"]
        assert evaluated(copy) == evaluated(folder)


def test_where_a_stop_value_ends_a_run_does_not_depend_on_timing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would with an evaluation that ends the run as soon as it is complete."""
    evaluate, ends = InteractionEvaluator.eval, []
    wishes = {**WISHES, "max_env_step": 512, "overrides": [
        *WISHES["overrides"], "env.stop_value=8.5", "policy.eval.evaluator.eval_freq=20",
        "policy.collect.n_sample=16", "policy.learn.update_per_collect=10",
    ]}  # fmt: skip
    for delay in (0.0, 0.05):

        def delayed(self: Any, *args: Any, delay: float = delay, **kwargs: Any) -> Any:
            found = evaluate(self, *args, **kwargs)
            time.sleep(delay)
            return found

        monkeypatch.setattr(InteractionEvaluator, "eval", delayed)
        run = folder.with_name(f"{folder.name}_{delay}")
        launch(exp_name=str(run), **wishes)
        ends.append((evaluated(run), result_of(run)["train_iter"], result_of(run)["env_step"]))
        assert result_of(run)["stop"]
    assert ends[0] == ends[1]
    assert ends[0][1] < 200


def test_a_run_that_is_killed_after_a_checkpoint_evaluates_as_if_it_were_not(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RELIABILITY C16: no evaluation is under way in a checkpoint of the same moment."""
    copies: list[Path] = []
    save = Run.save_checkpoint

    def copying(run: Run, name: str, state: Any = None) -> Any:
        made = save(run, name, state)
        if (
            made is not None and name.startswith("iteration_") and len(copies) < 4
        ):  # what a process that is killed now leaves behind
            copies.append(tmp_path / f"{name}_{len(copies)}")
            shutil.copytree(run.folder.path, copies[-1])
        return made

    monkeypatch.setattr(Run, "save_checkpoint", copying)
    wishes = {**WISHES, "max_env_step": 256, "overrides": [
        *WISHES["overrides"], "env.stop_value=1000", "policy.eval.evaluator.eval_freq=20",
        "policy.learn.learner.hook.save_ckpt_after_iter=20", "env.n_evaluator_episode=4",
        "policy.collect.n_sample=16", "policy.learn.update_per_collect=10",
    ]}  # fmt: skip
    launch(exp_name=str(folder), **wishes)
    monkeypatch.setattr(Run, "save_checkpoint", save)
    whole = evaluated(folder)
    assert len({each[1] for each in whole if each[0] == "evaluator/return_mean"}) >= 3
    for copy in copies[-2:]:
        (copy / "run.lock").unlink(missing_ok=True)
        launch(resume=str(copy))
        assert evaluated(copy) == whole
        assert best_of(copy) == best_of(folder)
