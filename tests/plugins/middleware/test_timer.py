"""Wrappers over all middleware, and the timer that is one."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from dicore.errors import TaskError
from dicore.task import Context, Task, middleware
from dicore_plugins.middleware.profiler import StepTimer, SupportsProfile


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
    assert rows[("quick",)].seconds < rows[("slow",)].seconds


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
