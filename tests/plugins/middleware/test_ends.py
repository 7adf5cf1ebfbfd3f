"""What ends a training or is kept of it: evaluation, checkpoints, budgets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dicore.run.checkpoint_store import read_state
from dicore.task import Context, OfflineRLContext, OnlineRLContext, Task, middleware, task
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.middleware import (
    CkptSaver,
    OffPolicyLearner,
    StepCollector,
    data_pusher,
    eps_greedy_handler,
    interaction_evaluator,
    termination_checker,
    trainer,
)
from dicore_plugins.policies import DQNPolicy


def count_updates(ctx: Any) -> None:
    ctx.train_iter += 1


@pytest.mark.parametrize("at_start", [False, True])
def test_it_evaluates_when_due_and_never_twice(make: Any, running: Any, at_start: bool) -> None:
    """Before anything is learned only if it is asked for."""
    cfg, _, env = make("env.stop_value=inf", f"policy.eval.evaluator.eval_at_start={at_start}")
    values: list[Any] = []
    running.use(interaction_evaluator(cfg, DQNPolicy(cfg.policy).eval_mode, env))
    running.use(lambda ctx: values.append((ctx.eval_value, ctx.last_eval_iter, ctx.eval_output)))
    running.run(max_step=2)
    running.use(count_updates)
    running.run(max_step=11)
    evaluated = [each for each in values if each[2] is not None]
    assert [each[1] for each in evaluated] == [0] * at_start + [5, 10]
    for value, _, output in evaluated:
        assert value == pytest.approx(np.mean(output.returns))
        assert len(output.returns) == 2
    assert running.ctx.last_eval_value == evaluated[-1][0]


def test_it_finishes_at_the_stop_value_but_not_at_0(make: Any, running: Any) -> None:
    cfg, _, env = make("env.stop_value=1")
    running.use(interaction_evaluator(cfg, DQNPolicy(cfg.policy).eval_mode, env))
    running.use(count_updates)
    running.run(max_step=100)
    assert running.ctx.last_eval_iter == 5
    assert running.ctx.total_step == 5


@pytest.mark.parametrize("cls", [OnlineRLContext, OfflineRLContext])
def test_evaluator_trainer_and_budgets_work_online_and_offline(
    make: Any, cls: type[Context]
) -> None:
    cfg, _, env = make("env.stop_value=inf")
    policy, buffer = DQNPolicy(cfg.policy), NaiveReplayBuffer({})

    def fetch(ctx: Any) -> None:
        ctx.train_data = buffer.sample_batch(16, replace=True)

    buffer.push({**dict.fromkeys(("obs", "next_obs"), np.zeros(4, np.float32)), "action": 0,
                 "reward": np.float32(0), "done": np.float32(0)})  # fmt: skip
    with task.start(ctx=cls()):
        task.use(interaction_evaluator(cfg, policy.eval_mode, env))
        task.use(middleware(writes=["train_data"])(fetch))
        task.use(trainer(cfg, policy.learn_mode))
        task.use(CkptSaver(cfg, policy, train_freq=4))
        task.use(termination_checker(max_train_iter=6))
        task.run()
        assert (task.ctx.train_iter, task.ctx.last_eval_iter, task.ctx.env_step) == (6, 5, 0)
    folders = {path.name for path in (Path(cfg.exp_name) / "ckpt").iterdir()}
    assert {"iteration_4", "final", "best"} <= folders


def losses_of_training(parts: Any, running: Any, evaluate: bool) -> list[float]:
    cfg, env, evaluator_env = parts
    policy, buffer, losses = DQNPolicy(cfg.policy), NaiveReplayBuffer({}), []
    running.use(eps_greedy_handler(cfg))
    running.use(StepCollector(cfg, policy.collect_mode, env))
    if evaluate:
        running.use(interaction_evaluator(cfg, policy.eval_mode, evaluator_env))
    running.use(data_pusher(cfg, buffer))
    running.use(OffPolicyLearner(cfg, policy.learn_mode, buffer))
    running.use(
        lambda ctx: losses.extend(float(each["total_loss"]) for each in ctx.train_output or ())
    )
    running.run(max_step=15)
    assert (running.ctx.last_eval_iter > 0) == evaluate
    return losses


def test_evaluating_leaves_the_training_alone(make: Any, running: Any) -> None:
    from dicore.task import OnlineRLContext, task

    parts = make("env.stop_value=inf", "policy.nstep=3")
    with_it = losses_of_training(parts, running, evaluate=True)
    task.stop()
    parts = make("env.stop_value=inf", "policy.nstep=3")
    with task.start(ctx=OnlineRLContext()):
        without = losses_of_training(parts, task, evaluate=False)
    assert len(with_it) > 30
    assert with_it == without


@pytest.mark.parametrize("form", ["documents", "head", "keywords"])
def test_checkpoints_in_both_forms(make: Any, running: Any, form: str, tmp_path: Path) -> None:
    cfg, _, env = make("env.stop_value=inf")
    policy = DQNPolicy(cfg.policy)
    if form == "documents":
        saver, folder = CkptSaver(cfg, policy, train_freq=4), Path(cfg.exp_name)
    elif form == "head":
        saver, folder = CkptSaver(policy, str(tmp_path / "own"), train_freq=4), tmp_path / "own"
    else:
        folder = tmp_path / "own"
        saver = CkptSaver(policy=policy, save_dir=folder, train_freq=4)
    running.use(interaction_evaluator(cfg, policy.eval_mode, env))
    running.use(count_updates)
    running.use(saver)
    running.run(max_step=9)
    names = {each.name for each in (folder / "ckpt").iterdir() if each.is_dir()}
    assert {"iteration_4", "iteration_8", "best", "final"} <= names
    assert not names & {"iteration_1", "iteration_5"}
    state = read_state(folder / "ckpt" / "final")["learner"]
    assert state["last_iter"] == 9
    twin = DQNPolicy(cfg.policy)
    with torch.no_grad():
        next(twin.get_attribute("model").parameters()).zero_()
    twin.learn_mode.load_state_dict(state["policy"])
    one, two = (each.get_attribute("model").state_dict() for each in (policy, twin))
    assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("combined", [False, True])
def test_a_saver_made_before_the_task_hears_of_the_best(
    make: Any, combined: bool, tmp_path: Path
) -> None:
    cfg, _, env = make("env.stop_value=inf", "policy.eval.evaluator.eval_at_start=true")
    policy = DQNPolicy(cfg.policy)
    saver = CkptSaver(policy, str(tmp_path / "own"), save_finish=False)
    from dicore.task import OnlineRLContext, task

    with task.start(ctx=OnlineRLContext()):
        task.use(interaction_evaluator(cfg, policy.eval_mode, env))
        task.use(task.parallel(task.serial(saver)) if combined else saver)
        task.run(max_step=1)
    assert [each.name for each in (tmp_path / "own" / "ckpt").iterdir()] == ["best"]


def test_no_final_checkpoint_unless_asked(make: Any, running: Any) -> None:
    cfg, *_ = make()
    running.use(CkptSaver(cfg, DQNPolicy(cfg.policy), save_finish=False))
    running.use(count_updates)
    running.run(max_step=3)
    assert not (Path(cfg.exp_name) / "ckpt").exists() or not any(
        (Path(cfg.exp_name) / "ckpt").iterdir()
    )


@pytest.mark.parametrize("limits", [{"max_env_step": 30}, {"max_train_iter": 3}])
def test_budgets_finish_the_task(running: Any, limits: dict[str, int]) -> None:
    def count(ctx: Any) -> None:
        ctx.env_step += 10
        ctx.train_iter += 1

    running.use(count)
    running.use(termination_checker(**limits))
    running.run(max_step=50)
    assert running.ctx.train_iter == 3


def test_the_task_that_uses_them_is_ended_and_saved(make: Any, tmp_path: Path) -> None:
    cfg, *_ = make()
    with Task().start(ctx=OnlineRLContext()) as own:
        own.use(count_updates).use(termination_checker(max_train_iter=3))
        own.use(CkptSaver(DQNPolicy(cfg.policy), str(tmp_path))).run(max_step=50)
        assert own.ctx.train_iter == 3
    assert read_state(tmp_path / "ckpt" / "final")["learner"]["last_iter"] == 3
