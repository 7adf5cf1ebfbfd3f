"""What a stage sees in async mode, and what it may do with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dicore.errors import TaskError, UsageError
from dicore.task import Context, OnlineRLContext, Task, middleware
from dicore_plugins.executors import lag_logger


def reads(ctx: OnlineRLContext) -> None:
    _ = ctx.train_iter


def asks(ctx: OnlineRLContext) -> None:
    getattr(ctx, "train_iter", 0)


def sets(ctx: OnlineRLContext) -> None:
    ctx.train_iter = 3


def keeps(ctx: OnlineRLContext) -> None:
    ctx.keep("eval_value")


def sets_what_it_reads(ctx: OnlineRLContext) -> None:
    ctx.env_step += 1


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (reads, r"'reads' reads ctx\.train_iter, which it does not declare"),
        (asks, r"'asks' reads ctx\.train_iter, which it does not declare"),
        (sets, r"'sets' sets ctx\.train_iter, which it does not declare"),
        (sets_what_it_reads, r"'sets_what_it_reads' sets ctx\.env_step, which it does not declare"),
        (keeps, r"'keeps' calls ctx\.keep"),
    ],
)  # fmt: skip
def test_what_is_not_declared_is_refused(
    stage: Callable[[OnlineRLContext], None], message: str
) -> None:
    """Its value would depend on timing."""

    def fresh(ctx: OnlineRLContext) -> None:
        stage(ctx)

    fresh.__qualname__ = stage.__qualname__
    declared = middleware(reads=["env_step"], uses=[])(fresh)
    with pytest.raises(TaskError, match=message), Task().start(True, ctx=OnlineRLContext()) as task:
        task.use(declared).run(max_step=3)


class Broken(Context):
    """Cannot be renewed for a third step."""

    made = 0

    def __post_init__(self) -> None:
        type(self).made += 1
        if type(self).made > 3:
            raise UsageError("no more contexts")


def test_an_error_of_the_context_surfaces_too() -> None:
    with pytest.raises(UsageError, match="no more contexts"), Task().start(True, ctx=Broken()) as t:
        t.use(middleware(uses=[])(lambda ctx: None)).run(max_step=9)


def test_members_of_a_parallel_take_turns_with_an_object_that_both_use() -> None:
    inside: list[int] = []

    def use(ctx: Any) -> None:
        inside.append(1)
        assert sum(inside) == 1
        time.sleep(0.002)
        inside.append(-1)

    shared = object()
    with Task().start(True, ctx=OnlineRLContext()) as task:
        declared = middleware(uses=[shared])(use)
        task.use(task.parallel(declared, declared)).run(max_step=4)


def test_a_stage_that_was_quick_and_waits_for_another_meets_it() -> None:
    """Quick stages are run in turn by one thread, until one waits."""
    meet = threading.Barrier(2)

    @middleware(uses=[])
    def wait(ctx: Any) -> None:
        if ctx.total_step == 20:
            meet.wait(60)

    with Task().start(True, ctx=OnlineRLContext()) as task:
        task.use(wait).use(wait).run(max_step=25)


def test_an_error_at_rest_names_the_middleware() -> None:
    task = Task().start(True, ctx=OnlineRLContext())

    def fail() -> None:
        raise OSError("no space left")

    def save(ctx: OnlineRLContext) -> None:
        if ctx.total_step == 2:
            task.executor.at_rest(fail)

    with pytest.raises(OSError, match="no space") as raised, task:
        task.use(middleware(uses=[])(save)).run(max_step=9)
    assert raised.value.__notes__ == [
        "raised by middleware 'test_an_error_at_rest_names_the_middleware.save' at rest,"
        " after total_step 3"
    ]


@pytest.mark.parametrize("async_mode", [False, True])
def test_the_lag_is_logged(async_mode: bool) -> None:
    lines: list[dict[str, int]] = []
    log = SimpleNamespace(log_scalars=lambda scalars, **counts: lines.append(scalars))

    @middleware(reads=["train_iter"], writes=["env_step"], uses=[])
    def collect(ctx: OnlineRLContext) -> None:
        ctx.env_step += 8

    @middleware(writes=["train_iter"], uses=[])
    def learn(ctx: OnlineRLContext) -> None:
        ctx.train_iter += 2

    with Task().start(async_mode, ctx=OnlineRLContext()) as task:
        task.use(collect).use(learn).use(lag_logger(log, every=4)).run(max_step=9)
    assert len(lines) == (3 if async_mode else 0)
    for line in lines[1:]:
        assert line["async/lag/steps"] == 1
        assert line["async/lag/train_iter"] in (0, 2, 4)
