"""The standard hooks, the two forms they are written in, and hooks of one's own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicore.errors import CheckpointError, HookError
from dicore.interfaces.hook import LearnerHook
from dicore_plugins.hooks import (
    LogShowHook,
    SaveCkptHook,
    add_learner_hook,
    build_learner_hook_by_cfg,
    merge_hooks,
    register_learner_hook,
    show_hooks,
)
from dicore_plugins.hooks.forms import build_hooks, hook_problems
from dicore_plugins.hooks.interval import Interval
from dicore_plugins.learners import BaseLearner
from dicore_plugins.learners.base.config import BaseLearnerConfig
from tests.plugins.learners.test_base import mode


def test_the_simple_form_makes_one_hook_per_key() -> None:
    hooks = build_hooks(
        {
            "load_ckpt_before_run": "",
            "log_show_after_iter": 100,
            "save_ckpt_after_iter": 10_000,
            "save_ckpt_after_run": True,
        }
    )
    assert [(hook.name, hook.position) for hook in hooks] == [
        ("log_show_after_iter", "after_iter"),
        ("save_ckpt_after_iter", "after_iter"),
        ("save_ckpt_after_run", "after_run"),
    ]


def test_both_forms_mix() -> None:
    full = {
        "type": "save_ckpt",
        "name": "mine",
        "priority": 40,
        "position": "after_iter",
        "ext_args": {"freq": 3},
    }
    hooks = build_hooks({"log_show_after_iter": 5, "any_name": full})
    assert [(hook.name, hook.priority) for hook in hooks] == [
        ("log_show_after_iter", 20),
        ("mine", 40),
    ]
    assert build_hooks([full, "log_show"])[1].name == "log_show"


@pytest.mark.parametrize(
    ("hook", "text"),
    [
        ({"log_sho_after_iter": 100}, "log_show"),
        ([{"type": "save_ckpt", "positon": "after_iter"}], "did you mean 'position'"),
        ([{"type": "save_ckpt", "position": "after_itre"}], "after_itre"),
        ([{"name": "x"}], "needs a 'type'"),
        (7, "expected a dict or a list"),
    ],
)
def test_a_wrong_description_is_a_problem(hook: Any, text: str) -> None:
    problems = list(hook_problems(hook))
    assert len(problems) == 1
    assert text in ": ".join(problems[0])
    with pytest.raises(HookError):
        build_hooks(hook)


def test_a_hook_of_ones_own_by_name() -> None:
    class Count(LearnerHook):
        def __init__(self, name: str = "count", *, priority: int = 5, start: int = 0) -> None:
            super().__init__(name, position="after_iter", priority=priority)
            self.count = start

        def __call__(self, engine: Any) -> None:
            self.count += 1

    register_learner_hook("count_in_test", Count)
    engine = BaseLearner(
        BaseLearnerConfig(hook=[{"type": "count_in_test", "ext_args": {"start": 10}}]), mode()
    )
    engine.train([])
    engine.train([])
    assert engine.hooks["after_iter"][0].count == 12  # type: ignore[attr-defined]


def test_merging_and_showing() -> None:
    one, two = LogShowHook("one", priority=30), LogShowHook("two", priority=10)
    hooks = merge_hooks([one], [two])
    assert hooks["after_iter"] == [two, one]
    add_learner_hook(hooks, LogShowHook("between", priority=20))
    assert [line.split()[-1] for line in show_hooks(hooks).splitlines()] == [
        "two",
        "between",
        "one",
    ]
    assert build_learner_hook_by_cfg("log_show").name == "log_show"  # type: ignore[union-attr]


def test_checkpoints_by_interval_and_after_the_run() -> None:
    saved: list[int] = []
    engine = SimpleNamespace(
        last_iter=0, rank=0, save_checkpoint=lambda: saved.append(engine.last_iter)
    )
    hook, last = SaveCkptHook(freq=10), SaveCkptHook(position="after_run")
    for engine.last_iter in range(4, 50, 4):
        hook(engine)
    last(engine)
    assert saved == [12, 20, 32, 40, 48]


def test_loading_what_was_saved(tmp_path: Path) -> None:
    engine = BaseLearner(BaseLearnerConfig(hook=[]), mode(), exp_name=str(tmp_path))
    engine.train([], envstep=3)
    path = engine.save_checkpoint("some")
    twin = BaseLearner(BaseLearnerConfig(hook={"load_ckpt_before_run": str(path)}), mode())
    twin.call_hook("before_run")
    assert (twin.last_iter, twin.envstep) == (1, 3)


def test_a_missing_checkpoint_is_an_error_before_training(tmp_path: Path) -> None:
    engine = BaseLearner(
        BaseLearnerConfig(hook={"load_ckpt_before_run": str(tmp_path / "no")}), mode()
    )
    engine.get_data = lambda batch_size: pytest.fail("training began")
    with pytest.raises(CheckpointError):
        engine.start()
    engine.close()


def test_log_show_writes_means_against_updates_and_env_steps() -> None:
    written: list[Any] = []
    board = SimpleNamespace(add_scalar=lambda *args: written.append(args))
    engine = BaseLearner(BaseLearnerConfig(hook={"log_show_after_iter": 2}), mode(), board)
    for _ in range(3):
        engine.train([], envstep=9)
    assert written == [
        ("learner/total_loss_iter", 0.0, 2),
        ("learner/total_loss_step", 0.0, 9),
    ]
    assert engine.monitor == {"total_loss": 0.0}
    assert len(engine.log_buffer) == 1


@given(st.integers(1, 20), st.lists(st.integers(1, 30), max_size=30))
def test_an_interval_is_due_once_per_multiple_reached(length: int, bundles: list[int]) -> None:
    interval, count, yes = Interval(length), 0, 0
    for bundle in bundles:
        before, count = count, count + bundle
        due = interval.due(count)
        assert due == (count // length > before // length)
        yes += due
        assert not interval.due(count)
