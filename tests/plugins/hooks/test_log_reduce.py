"""Logs of several learners become one: two real processes with gloo on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dicore.errors import HookError
from dicore_plugins.hooks import LogReduceHook
from dicore_plugins.hooks.hook_config import build_hooks

LEARNER = """
import json, sys
from datetime import timedelta

import torch
from torch import distributed

from dicore.errors import HookError
from dicore.interfaces.policy import LearnMode
from dicore_plugins.learners import BaseLearner

rank, place, odd = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
distributed.init_process_group(
    "gloo", init_method=f"file://{place}", rank=rank, world_size=2, timeout=timedelta(seconds=60)
)
numbers = iter(range(100))


def forward(data):
    number = next(numbers)
    loss = float("nan") if (rank, number) == (1, 5) else 10.0 * number + rank
    result = {"total_loss": torch.tensor(loss), "cur_lr": 0.5 + rank}
    return [result] * 3 if "uneven" in odd and rank else result


mode = LearnMode(
    forward, lambda: None, lambda: "", lambda: ["total_loss", "cur_lr"], None, None,
    lambda: {}, lambda state: None,
)
written = []


class Board:
    def add_scalar(self, name, value, step):
        written.append((name, value, step))


hook = {"log_show_after_iter": 2, "log_reduce_after_iter": 100}
learner = BaseLearner({"hook": hook}, mode, Board(), (rank, 2))
told = {"shown": written, "monitors": [], "columns": []}
try:
    for each in range(6):
        learner.train([])
        told["monitors"].append(dict(learner.monitor))
except HookError as error:
    told["error"] = f"{error.message}; {error.hint}"
distributed.destroy_process_group()
print(json.dumps(told))
"""


def learn_together(place: Path, *odd: str) -> list[dict[str, Any]]:
    env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", LEARNER, str(rank), str(place), *odd],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        answers = [each.communicate(timeout=500) for each in started]
    finally:
        for each in started:
            each.kill()
            each.wait()
    for each, (_, said) in zip(started, answers, strict=True):
        assert each.returncode == 0, said
    return [json.loads(told.splitlines()[-1]) for told, _ in answers]


def test_two_learners_show_their_mean(tmp_path: Path) -> None:
    """Whatever the interval of `log_reduce` is: they are reduced when they are shown."""
    first, second = learn_together(tmp_path / "meeting")
    assert first["monitors"][:4] == second["monitors"][:4]
    assert first["monitors"][1] == {"total_loss": 5.5, "cur_lr": 1.0}
    assert first["monitors"][3] == {"total_loss": 25.5, "cur_lr": 1.0}
    assert first["monitors"][5]["total_loss"] == 40.5, "what one has spoilt counts for none"
    assert second["shown"] == []
    assert [each for each in first["shown"] if "cur_lr" in each[0]] == [
        ["learner/cur_lr_iter", 1.0, 2],
        ["learner/cur_lr_iter", 1.0, 4],
        ["learner/cur_lr_iter", 1.0, 6],
    ]


def test_learners_that_are_not_in_step_are_told_so(tmp_path: Path) -> None:
    told = learn_together(tmp_path / "meeting", "uneven")
    assert ["different numbers of updates" in each["error"] for each in told] == [True, True]
    assert "learner 0 has cur_lr [2], total_loss [2]" in told[0]["error"]


def engine(world_size: int) -> Any:
    def columns() -> Any:
        raise AssertionError("a single learner has nothing to exchange")

    return SimpleNamespace(
        world_size=world_size,
        rank=0,
        last_iter=100,
        _hooks={},
        log_buffer=SimpleNamespace(columns=columns),
    )


def test_a_single_learner_is_left_as_it_is() -> None:
    LogReduceHook()(engine(1))


def test_several_learners_need_a_process_group() -> None:
    with pytest.raises(HookError, match="learner 0 of 2 has no process group") as raised:
        LogReduceHook()(engine(2))
    assert "init_process_group" in raised.value.hint


def test_it_is_asked_for_by_name_and_runs_before_the_log_is_shown() -> None:
    show, reduce = build_hooks({"log_show_after_iter": 10, "log_reduce_after_iter": 10})
    assert isinstance(reduce, LogReduceHook)
    assert reduce.priority < show.priority
    assert build_hooks({"log_reduce_after_iter": 0}) == []
    with pytest.raises(HookError, match="freq must be >= 1, got 0"):
        LogReduceHook(freq=0)


def test_an_interval_goes_on_where_the_learner_does() -> None:
    hook = LogReduceHook(freq=10)
    hook.resume(SimpleNamespace(last_iter=105))
    assert not hook._interval.due(109)
    assert hook._interval.due(110)
    assert np.isfinite(hook._interval.length)
