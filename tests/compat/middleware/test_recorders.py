"""Middleware that writes files and logs."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dicore.errors import UsageError
from dicore.task import OnlineRLContext, Task, middleware, task
from dicore_compat.middleware import (
    buffer_saver,
    epoch_timer,
    final_ctx_saver,
    offline_data_saver,
    offline_logger,
    online_logger,
)
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.datasets import NpzDataset
from dicore_plugins.middleware import StepCollector, data_pusher
from dicore_plugins.policies import DQNPolicy


@middleware(reads=["env_step", "train_iter"], writes=["env_step", "train_iter", "train_output"])
def count(ctx: OnlineRLContext) -> None:
    ctx.env_step += 40
    ctx.train_iter += 2
    ctx.train_output = [{"total_loss": np.float32(at), "name": "x"} for at in (1, 3)]


@pytest.mark.parametrize("replace", [False, True])
def test_a_buffer_is_saved_every_so_many_env_steps(tmp_path: Path, replace: bool) -> None:
    buffer = NaiveReplayBuffer({})
    buffer.push({"reward": 1.0})
    cfg: Any = SimpleNamespace(exp_name=str(tmp_path))
    with task.start(ctx=OnlineRLContext()):
        task.use(count).use(buffer_saver(cfg, buffer, 100, replace)).run(max_step=6)
    files = sorted(path.name for path in (tmp_path / "replaybuffer").iterdir())
    assert files == (["data_latest"] if replace else ["data_envstep_120", "data_envstep_240"])
    twin = NaiveReplayBuffer({})
    twin.load_data(tmp_path / "replaybuffer" / files[0])
    assert twin.count() == 1


def test_collected_data_becomes_a_data_set(make: Any, running: Any, tmp_path: Path) -> None:
    cfg, env, _ = make()
    path, seen = tmp_path / "new" / "data.npz", []
    running.use(StepCollector(cfg, DQNPolicy(cfg.policy).collect_mode, env, reuse=True))
    running.use(lambda ctx: seen.append(ctx.trajectories["obs"].copy()))
    running.use(offline_data_saver(str(path)))
    running.use(data_pusher(cfg, NaiveReplayBuffer({})))
    running.run(max_step=4)
    dataset = NpzDataset({"path": str(path)})
    assert len(dataset) == 40
    found = dataset.take(np.arange(40))["obs"]
    assert sorted(found.tolist()) == sorted(np.concatenate(seen).tolist())
    with pytest.raises(UsageError, match="'collected' writes no files"):
        offline_data_saver("x", "collected")


@pytest.mark.parametrize("task", [task, Task()], ids=["default", "own"])
def test_the_last_counters_are_written(task: Task, tmp_path: Path) -> None:
    for value in (float("-inf"), 7.5):
        with task.start(ctx=OnlineRLContext(last_eval_value=value)):
            task.use(final_ctx_saver(str(tmp_path / "end"))).use(count).run(max_step=3)
        found = json.loads((tmp_path / "end" / "result.json").read_text())
        assert found == {
            "total_step": 2, "env_step": 120, "train_iter": 6, "last_eval_iter": -1,
            "last_eval_value": value if value > 0 else None,
        }  # fmt: skip


def test_the_duration_of_steps_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without what was before the first step."""
    caplog.set_level(logging.INFO, "dicore.task")
    measure, times = epoch_timer(2), iter((100.0, 101.0, 104.0))
    clock = SimpleNamespace(perf_counter=lambda: next(times))
    monkeypatch.setattr("dicore_compat.middleware.recorders.time", clock)
    with task.start(ctx=OnlineRLContext()):
        task.use(measure).use(count).run(max_step=5)
    lines = [each.message for each in caplog.records if "ms per step" in each.message]
    assert lines == ["step 1: 500.000 ms per step", "step 3: 1500.000 ms per step"]
    with pytest.raises(UsageError, match="print_per_epoch"):
        epoch_timer(0)


@pytest.mark.parametrize(
    ("make_logger", "step"),
    [
        (lambda log: online_logger(log, train_show_freq=4), 80),
        (lambda log: online_logger(log, record_train_iter=True, train_show_freq=4), 4),
        (lambda log: offline_logger(log, train_show_freq=4), 4),
    ],
)
def test_evaluations_and_updates_are_logged(make_logger: Any, step: int) -> None:
    lines: list[Any] = []
    log = SimpleNamespace(log_scalars=lambda scalars, **counts: lines.append((scalars, counts)))

    @middleware(writes=["eval_output", "last_eval_value"])
    def evaluate(ctx: OnlineRLContext) -> None:
        if ctx.total_step == 2:
            ctx.eval_output, ctx.last_eval_value = object(), 9.0

    with task.start(ctx=OnlineRLContext()):
        task.use(evaluate).use(count).use(make_logger(log)).run(max_step=3)
    assert lines[0] == ({"basic/train_total_loss": 2.0}, {"env_step": step, "train_iter": 4})
    assert lines[1][0] == {"basic/eval_episode_return_mean": 9.0}
