"""Wrappers over all middleware, and the timer that is one."""

from __future__ import annotations

import copy
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from dicore.errors import NonFiniteError, TaskError
from dicore.run.launch import launch
from dicore.task import Context, Task, middleware
from dicore_plugins.middleware.profiler import StepTimer, SupportsProfile
from dicore_plugins.optimizers.flat import FlatOptimizer
from tests.conformance.test_all import SMALL


def slow(ctx: Context) -> None:
    time.sleep(0.004)


def both_halves(ctx: Context) -> Iterator[None]:
    time.sleep(0.002)
    yield
    time.sleep(0.002)


def quick(ctx: Context) -> None: ...


def test_a_wrapper_goes_around_what_is_and_what_will_be_in_use() -> None:
    seen: list[str] = []

    def noting(mark: str) -> Any:
        def wrapper(fn: Any) -> Any:
            def noted(ctx: Any) -> Any:
                seen.append(f"{mark} {fn.__qualname__.rpartition('.')[2]}")
                return fn(ctx)

            noted.__qualname__ = fn.__qualname__
            return noted

        return wrapper

    with Task().start() as task:
        task.use(quick).use_wrapper(noting("inner")).use_wrapper(noting("outer")).use(both_halves)
        task.run(max_step=1)
    assert seen == ["outer quick", "inner quick", "outer both_halves", "inner both_halves"]


def test_what_is_wrapped_keeps_its_name_and_its_fields() -> None:
    @middleware(reads=["no_such_field"])
    def odd(ctx: Context) -> None: ...

    with Task().start() as task, pytest.raises(TaskError, match="odd' needs a field 'no_such_fie"):
        task.use(odd).use_wrapper(StepTimer()).run(max_step=1)

    def broken(ctx: Context) -> Iterator[None]:
        yield
        raise OSError("full")

    with Task().start() as task, pytest.raises(OSError, match="full") as raised:
        task.use(broken, lock=True).use_wrapper(StepTimer()).run(max_step=1)
    assert "broken' at total_step 0" in raised.value.__notes__[0]


@pytest.mark.parametrize(
    ("wrapper", "said"),
    [
        (lambda fn: None, "does not return a middleware for 'quick': .* got None"),
        (
            lambda fn: lambda: None,
            "does not return a middleware for 'quick': .* with only a context",
        ),
        (StepTimer, "a wrapper must be a function that takes a middleware, got <class"),
        (3, "a wrapper must be a function that takes a middleware, got 3"),
    ],
)
def test_a_wrapper_returns_a_middleware(wrapper: Any, said: str) -> None:
    with Task().start() as task, pytest.raises(TaskError, match=said):
        task.use(quick).use_wrapper(wrapper)


def test_wrappers_end_with_the_task() -> None:
    timer, task = StepTimer(), Task()
    with task.start():
        task.use_wrapper(timer)
    with task.start():
        task.use(quick).run(max_step=1)
    assert timer.rows() == []


def test_both_halves_of_every_middleware_are_timed() -> None:
    timer = StepTimer()
    with Task().start() as task:
        task.use_wrapper(timer)
        task.use(slow).use(both_halves).use(quick).use(quick)
        task.run(max_step=3)
    rows = {row.path: row for row in timer.rows()}
    assert list(rows) == [("slow",), ("both_halves",), ("quick",), ("quick #2",)]
    assert {row.calls for row in rows.values()} == {3}
    assert rows[("slow",)].seconds >= 3 * 0.004
    assert rows[("both_halves",)].seconds >= 3 * 0.004
    assert rows[("quick",)].seconds > 0


def test_the_table_has_a_line_for_each() -> None:
    timer = StepTimer()
    with Task().start() as task:
        task.use_wrapper(timer).use(slow).use(both_halves).run(max_step=2)
    header, first, second = timer.table().splitlines()
    assert header.split() == ["what", "calls", "total", "s", "mean", "ms", "share"]
    assert re.fullmatch(r"slow +2 +0\.\d{3} +\d+\.\d{3} +\d+\.\d %", first)
    assert second.startswith("both_halves")
    shares = [float(line.split()[-2]) for line in (first, second)]
    assert sum(shares) == pytest.approx(100.0, abs=0.2)


def test_it_prints_every_so_many_steps(capsys: pytest.CaptureFixture[str]) -> None:
    with Task().start() as task:
        task.use_wrapper(StepTimer(print_per_step=2)).use(quick).run(max_step=5)
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == [
        "calls", "2", "calls", "4",
    ]  # fmt: skip
    with pytest.raises(TaskError, match="print_per_step must be >= 1, got 0"):
        StepTimer(print_per_step=0)


class Engine:
    """Something to be looked into."""

    def work(self) -> int:
        self.inner()
        return sum(self.batches())

    def inner(self) -> None:
        time.sleep(0.002)

    def batches(self) -> Iterator[int]:
        for each in range(3):
            time.sleep(0.001)
            yield each

    def profile(self, timer: StepTimer, /) -> None:
        timer.patch(self, "work", "work", rest="the rest")
        timer.patch(self, "inner", "inner")
        timer.patch(Engine, "batches", "batches")


def test_parts_are_timed_inside_of_what_calls_them_and_left_as_they_were() -> None:
    engine, timer = Engine(), StepTimer()
    assert isinstance(engine, SupportsProfile)
    before = Engine.batches
    engine.profile(timer)
    with Task().start() as task:
        task.use_wrapper(timer).use(lambda ctx: task.stop() if engine.work() == 3 else None).run()
    timer.end()
    assert Engine.batches is before
    assert not vars(engine)
    rows = {row.path[1:]: row for row in timer.rows()}
    assert list(rows) == [
        (), ("work",), ("work", "inner"), ("work", "batches"), ("work", "the rest"),
    ]  # fmt: skip
    assert rows["work", "inner"].seconds >= 0.002
    assert rows["work", "batches"].seconds >= 0.003
    assert rows["work", "batches"].calls == 1
    parts = sum(row.seconds for path, row in rows.items() if len(path) == 2)
    assert parts == pytest.approx(rows["work",].seconds)
    engine.work()
    assert rows["work",].calls == 1


def test_another_thread_is_left_out() -> None:
    engine, timer = Engine(), StepTimer()
    engine.profile(timer)
    thread = threading.Thread(target=engine.work)
    thread.start()
    thread.join()
    timer.end()
    assert timer.rows() == []


def test_an_error_inside_leaves_the_timer_in_order() -> None:
    timer = StepTimer()

    def fail() -> None:
        raise OSError("full")

    inner = timer.around("inner", fail)
    outer = timer.around("outer", inner)
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            outer()
    assert [(row.path, row.calls) for row in timer.rows()] == [
        (("outer",), 2), (("outer", "inner"), 2),
    ]  # fmt: skip


# ---- --profile


FEW = ("pipeline.logger=[]", "pipeline.max_env_step=96", "env.stop_value=inf")


def train(place: Path, *, profile: bool, **more: Any) -> Any:
    return launch(SMALL, exp_name=str(place), overrides=FEW, profile=profile, **more)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train(tmp_path_factory.mktemp("profile") / "run", profile=True)


def rows_of(outcome: Any) -> dict[tuple[str, ...], dict[str, Any]]:
    document = json.loads((outcome.run.folder.log / "profile.json").read_text())
    return {tuple(row["path"]): row for row in document["rows"]}


def test_each_middleware_and_the_inside_of_the_learner_are_told(profiled: Any) -> None:
    rows = rows_of(profiled)
    updates = profiled.run.result.train_iter
    learner = ("OffPolicyLearner", "learner")
    assert rows[learner]["calls"] == updates > 0
    inside = {
        path[3:]: row["calls"] for path, row in rows.items() if path[:3] == (*learner, "update")
    }
    assert inside == {
        (): updates, ("backward",): updates, ("optimizer",): updates,
        ("forward and loss",): updates,
    }  # fmt: skip
    for path in (
        ("StepCollector", "env step"), ("OffPolicyLearner", "sample"), ("data_pusher.push", "push"),
        (*learner, "hook log_show_after_iter"), ("outside of middleware",),
    ):  # fmt: skip
        assert path in rows


def test_the_times_add_up(profiled: Any) -> None:
    document = json.loads((profiled.run.folder.log / "profile.json").read_text())
    rows = rows_of(profiled)
    outer = sum(row["seconds"] for path, row in rows.items() if len(path) == 1)
    assert outer == pytest.approx(document["wall_s"], rel=1e-3, abs=1e-4)
    assert document["wall_s"] >= profiled.run.result.wall_s
    for path, row in rows.items():
        inner = [each["seconds"] for other, each in rows.items() if other[:-1] == path]
        assert sum(inner) <= row["seconds"] + 1e-5
        assert all(each >= 0 for each in inner)
    text = (profiled.run.folder.log / "profile.txt").read_text().splitlines()
    assert len(text) == len(rows) + 1


def test_what_was_timed_is_left_as_it_was(profiled: Any) -> None:
    assert torch.Tensor.backward.__module__ == "torch._tensor"
    assert FlatOptimizer.step.__qualname__ == "FlatOptimizer.step"
    for part in profiled.run.parts.values():
        assert not {"train", "sample_batch", "step", "eval"} & set(vars(part))
    from dicore_plugins.learners.base.profile import TimedHook

    hooks = profiled.run.parts["learner"].hooks
    assert not any(isinstance(hook, TimedHook) for each in hooks.values() for hook in each)


def test_a_training_is_the_same_with_and_without(profiled: Any, tmp_path: Path) -> None:
    plain = train(tmp_path / "run", profile=False)
    assert not (plain.run.folder.log / "profile.json").exists()
    one, other = (each.policy.learn_mode.state_dict()["model"] for each in (plain, profiled))
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_failed_training_leaves_a_profile_and_nothing_patched(tmp_path: Path) -> None:
    class Failing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)

        def forward(self, obs: torch.Tensor) -> dict[str, torch.Tensor]:
            if torch.is_grad_enabled():
                raise NonFiniteError("planted")
            return {"logit": self.layer(obs)}

    with pytest.raises(NonFiniteError, match="planted"):
        train(tmp_path / "run", profile=True, model=Failing())
    rows = json.loads((tmp_path / "run" / "log" / "profile.json").read_text())["rows"]
    assert ["OffPolicyLearner"] in [row["path"] for row in rows]
    assert torch.Tensor.backward.__module__ == "torch._tensor"


def test_the_command_shows_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dicore.cli.train import command

    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.json").write_text(json.dumps(SMALL))
    words = ["small.json", "--profile", "--exp-name", "x", *FEW]
    told = CliRunner().invoke(copy.copy(command), words, catch_exceptions=False).stdout.splitlines()
    (start,) = (number for number, line in enumerate(told) if line.startswith("what "))
    table = (tmp_path / "x" / "log" / "profile.txt").read_text().splitlines()
    assert told[start : start + len(table)] == table
