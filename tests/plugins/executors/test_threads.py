"""Async mode: what overlaps, what every middleware sees, errors, interruption, rest."""

from __future__ import annotations

import _thread
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dicore.errors import TaskError
from dicore.task import OnlineRLContext, Task, events, middleware
from dicore_plugins.executors import ThreadExecutor, threads
from dicore_plugins.middleware import StepTimer


class Buffer:
    """A part with state."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self.rows}


class Program:
    """Explores, collects, stores and learns; sleeps in every half."""

    def __init__(self, sleep: Callable[[], None] = lambda: None) -> None:
        self.buffer = Buffer()
        self.seen: list[tuple[Any, ...]] = []
        self.running: set[str] = set()
        self.together: set[frozenset[str]] = set()
        self.sleep = sleep

    def work(self, name: str) -> None:
        self.running.add(name)
        self.together.add(frozenset(self.running))
        self.sleep()
        self.running.discard(name)

    def stages(self) -> list[Any]:
        buffer, seen, work = self.buffer, self.seen, self.work

        @middleware(reads=["env_step"], writes=["collect_kwargs"], optional=["train_iter"], uses=[])
        def explore(ctx: OnlineRLContext) -> Iterator[None]:
            ctx.collect_kwargs["eps"] = ctx.env_step
            work("explore")
            yield
            work("explore again")
            assert ctx.collect_kwargs.pop("eps") <= ctx.env_step
            seen.append(("end", ctx.total_step, ctx.env_step, ctx.train_iter))

        @middleware(
            reads=["env_step", "train_iter"],
            writes=["trajectories", "env_step"],
            optional=["collect_kwargs"],
        )
        def collect(ctx: OnlineRLContext) -> None:
            work("collect")
            ctx.trajectories = [ctx.total_step] * 3
            ctx.env_step += 3
            seen.append(("collect", ctx.total_step, ctx.train_iter, ctx.collect_kwargs["eps"]))

        @middleware(either=["trajectories", "episodes"], optional=["trajectories"])
        def push(ctx: OnlineRLContext) -> None:
            assert ctx.trajectories is not None
            buffer.rows.extend(ctx.trajectories)
            work("push")
            ctx.trajectories = None

        @middleware(
            reads=["train_iter", "env_step"], writes=["train_iter"], optional=["trajectories"]
        )
        def learn(ctx: OnlineRLContext) -> None:
            assert ctx.trajectories is None
            work("learn")
            if len(buffer.rows) > 5:
                ctx.train_iter += 2
            seen.append(("learn", ctx.total_step, len(buffer.rows), ctx.env_step))

        return [explore, collect, push, learn]


def run(program: Program, steps: int, *, lag: int | None = 1, workers: int = 3) -> tuple[int, ...]:
    """Runs it, without async mode if `lag` is None; returns the counters."""
    with Task().start(lag is not None, workers, OnlineRLContext()) as task:
        if lag is not None:
            task.executor.max_lag = lag
        for each in program.stages():
            task.use(each)
        task.run(max_step=steps)
        ctx: Any = task.ctx
        return ctx.total_step, ctx.env_step, ctx.train_iter, len(program.buffer.rows)


def late(number: int) -> int:
    """Updates after a step; two from the second step on."""
    return 2 * max(number, 0)


@pytest.mark.parametrize("lag", [1, 2, 3])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_each_sees_what_those_before_it_wrote(lag: int, workers: int) -> None:
    """The same whatever the delays are: a version of `lag` steps ago of what comes later."""
    steps, random_ = 12, random.Random(lag)
    program = Program(lambda: time.sleep(random_.random() * 5e-4))
    assert run(program, steps, lag=lag, workers=workers) == run(Program(), steps, lag=None)
    seen = {(name, at): rest for name, at, *rest in program.seen}
    for at in range(steps):
        assert seen["collect", at] == [late(at - 1 - lag), 3 * max(at - lag, 0)]
        assert seen["learn", at] == [3 * (at + 1), 3 * (at + 1)]
        assert seen["end", at] == [3 * (at + 1), late(at)]


@pytest.mark.parametrize("runs", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_random_delays_change_nothing(runs: int) -> None:
    wanted = run(Program(), 10, lag=None)
    for seed in range(runs):
        random_ = random.Random(seed)
        program = Program(lambda r=random_: time.sleep(r.random() * 1e-3))  # type: ignore[misc]
        assert run(program, 10) == wanted
        assert program.buffer.rows == [at for at in range(10) for _ in range(3)]


def test_collecting_goes_on_while_it_learns() -> None:
    begun, until = list[str](), time.monotonic() + 60

    def beside(name: str) -> bool:
        return any({name, "learn"} <= names for names in [*program.together])

    class Meeting(Program):
        def work(self, name: str) -> None:
            begun.append(name)
            self.running.add(name)
            self.together.add(frozenset(self.running))
            if name == "learn" or (name == "collect" and begun.count("collect") > 1):
                while not beside("collect") and time.monotonic() < until:
                    time.sleep(0.001)
            self.running.discard(name)

    program = Meeting()
    run(program, 8)
    assert beside("collect")
    assert not beside("push"), "they share the buffer"


def test_a_field_that_a_second_half_counts_is_read_by_the_next_step() -> None:
    seen: list[int] = []

    @middleware(reads=["train_iter"], writes=["train_iter"], uses=[])
    def count(ctx: OnlineRLContext) -> Iterator[None]:
        seen.append(ctx.train_iter)
        yield
        time.sleep(0.005)
        ctx.train_iter += 1

    with Task().start(True, 3, OnlineRLContext()) as task:
        task.use(count).run(max_step=5)
    assert seen == list(range(5))


def test_what_declares_nothing_runs_alone() -> None:
    program, alone = Program(lambda: time.sleep(0.001)), []

    def look(ctx: OnlineRLContext) -> None:
        alone.append(not program.running and ctx.train_iter == late(ctx.total_step))
        ctx.eval_value = float(ctx.train_iter)

    with Task().start(True, ctx=OnlineRLContext()) as task:
        for each in (*program.stages(), look):
            task.use(each)
        task.run(max_step=5)
        assert task.ctx.eval_value == 8.0
    assert alone == [True] * 5


def test_members_of_a_parallel_run_at_the_same_time_and_those_of_a_serial_in_order() -> None:
    meet, order = threading.Barrier(3), []

    def member(name: str) -> Any:
        def fn(ctx: OnlineRLContext) -> Iterator[None]:
            meet.wait(60)
            yield
            order.append(name)

        return fn

    def note(name: str) -> Any:
        return lambda ctx: order.append(name)

    with Task().start(True, ctx=OnlineRLContext()) as task:
        task.use(task.parallel(*map(member, "abc")))
        task.use(task.sequence(note("d"), note("e"))).use(note("f"))
        task.run(max_step=2)
    assert order == [*"defcba"] * 2


def test_members_of_a_parallel_that_declare_a_dependency_run_in_order() -> None:
    seen: list[float] = []

    @middleware(writes=["eval_value"], uses=[])
    def write(ctx: OnlineRLContext) -> None:
        time.sleep(0.01)
        ctx.eval_value = float(ctx.total_step)

    @middleware(optional=["eval_value"], uses=[])
    def read(ctx: OnlineRLContext) -> None:
        seen.append(ctx.eval_value)

    with Task().start(True, 3, OnlineRLContext()) as task:
        task.use(task.parallel(write, read)).run(max_step=8)
    assert seen == list(range(8))


@pytest.mark.parametrize("half", ["forward", "backward"])
def test_an_exception_surfaces_at_once_by_name(half: str) -> None:
    program, closed = Program(), []

    @middleware(reads=["train_iter"], uses=[])
    def broken(ctx: OnlineRLContext) -> Iterator[None]:
        if half == "forward" and ctx.total_step == 3:
            raise KeyError("bad")
        try:
            yield
        finally:
            closed.append(ctx.total_step)
        if ctx.total_step == 3:
            raise KeyError("bad")

    task = Task().start(True, ctx=OnlineRLContext())
    for each in (*program.stages(), broken):
        task.use(each)
    with pytest.raises(KeyError, match="bad") as raised, task:
        task.run(max_step=100)
    note = f"raised in middleware '{broken.__qualname__.replace('.<locals>', '')}' at total_step 3"
    assert raised.value.__notes__ == [note]
    assert raised.traceback[-1].name == "broken"
    assert {name for name, at, *_ in program.seen if at > 5} == set()
    assert threading.active_count() == 1 or no_thread_of_ours()


def no_thread_of_ours() -> bool:
    return not any(each.name.startswith("dicore-") for each in threading.enumerate())


@pytest.mark.parametrize("async_mode", [False, True])
def test_failures_to_close_do_not_hide_the_exception(async_mode: bool) -> None:
    closed: list[str] = []

    def stage(name: str) -> Any:
        @middleware(reads=["env_step"], uses=[])
        def fn(ctx: OnlineRLContext) -> Iterator[None]:
            try:
                yield
            finally:
                closed.append(name)
                raise KeyError(name)

        return fn

    def fails(ctx: OnlineRLContext) -> None:
        raise ValueError("planted")

    with (
        pytest.raises(ValueError, match="planted") as raised,
        Task().start(async_mode, ctx=OnlineRLContext()) as task,
    ):
        task.use(stage("a")).use(stage("b")).use(fails).run(max_step=3)
    assert closed == ["b", "a"]
    notes = raised.value.__notes__
    assert ["fails' at total_step 0" in notes[0], len(notes)] == [True, 3]
    assert "fn' failed too: KeyError('a')" in notes[2]


def test_an_exception_of_a_listener_surfaces_too() -> None:
    def listener(value: int) -> None:
        if value == 2:
            raise ValueError("heard")

    task = Task().start(True, ctx=OnlineRLContext())
    task.on("x", listener)
    task.use(middleware(uses=[])(lambda ctx: task.emit("x", ctx.total_step)))
    with pytest.raises(ValueError, match="heard") as raised, task:
        task.run(max_step=9)
    assert "listener" in raised.value.__notes__[0]
    assert "at total_step 2" in raised.value.__notes__[1]


def test_ctrl_c_ends_it_although_a_middleware_hangs() -> None:
    release = threading.Event()

    @middleware(reads=["env_step"], uses=[])
    def hang(ctx: OnlineRLContext) -> None:
        release.wait(30)

    began = time.monotonic()
    threading.Timer(0.2, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt), Task().start(True, ctx=OnlineRLContext()) as task:
        task.use(hang).run()
    assert time.monotonic() - began < 29
    release.set()
    while not no_thread_of_ours():
        time.sleep(0.01)


def test_finish_ends_a_fixed_number_of_steps_later() -> None:
    """The steps that may have begun are completed."""
    for seed in range(5):
        random_ = random.Random(seed)
        program = Program(lambda r=random_: time.sleep(r.random() * 1e-3))  # type: ignore[misc]
        last: list[bool] = []
        with Task().start(True, ctx=OnlineRLContext()) as task:

            @middleware(reads=["train_iter"], uses=[])
            def check(ctx: OnlineRLContext, task: Task = task, last: list[bool] = last) -> None:
                if ctx.total_step == 4:
                    task.finish = True
                last.append(task.finish)

            for each in (*program.stages(), check):
                task.use(each)
            task.run()
            assert task.ctx.total_step == 5
            task.run()
            assert task.ctx.total_step == 5
        assert last == [False] * 4 + [True] * 2


def test_a_run_goes_on_where_the_last_one_ended() -> None:
    program = Program()
    with Task().start(True, ctx=OnlineRLContext(env_step=30)) as task:
        for each in program.stages():
            task.use(each)
        for _ in range(3):
            task.run(max_step=2)
        assert (task.ctx.total_step, task.ctx.env_step) == (5, 48)
        task.renew()
        assert task.ctx.total_step == 6
        task.run(max_step=1)
        assert (task.ctx.total_step, task.ctx.env_step) == (6, 51)
        assert task.sync() is task


def test_middleware_added_during_a_run_takes_part() -> None:
    seen: list[int] = []
    with Task().start(True, ctx=OnlineRLContext()) as task:

        @middleware(uses=[])
        def add(ctx: OnlineRLContext) -> None:
            if ctx.total_step == 2:
                task.use(lambda ctx: seen.append(ctx.total_step))

        task.use(add).run(max_step=8)
        assert task.ctx.total_step == 7
    assert seen == list(range(seen[0], 8))
    assert seen[0] <= 4


def test_background_work_is_waited_for_and_its_errors_surface() -> None:
    done: list[int] = []
    with Task().start(True, ctx=OnlineRLContext()) as task:
        executor = task.executor
        assert isinstance(executor, ThreadExecutor)

        @middleware(uses=[])
        def begin(ctx: OnlineRLContext) -> None:
            if ctx.total_step == 1:
                executor.background("work", lambda: (time.sleep(0.05), done.append(1)))  # type: ignore[arg-type,return-value]

        task.use(begin).run(max_step=3)
        assert done == [1]
    task.start(True, ctx=OnlineRLContext())
    fail = lambda ctx: task.executor.background("count", lambda: 1 // 0)  # noqa: E731
    task.use(middleware(uses=[])(fail))
    with pytest.raises(ZeroDivisionError) as raised, task:
        task.run()
    assert raised.value.__notes__ == ["raised in 'count', in the background"]


def test_a_middleware_that_runs_for_long_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(threads, "TOLD_S", 0.1)

    @middleware(uses=[])
    def slow(ctx: OnlineRLContext) -> None:
        time.sleep(0.4)

    with (
        caplog.at_level("WARNING", "dicore.task"),
        Task().start(True, ctx=OnlineRLContext()) as own,
    ):
        own.use(slow).run(max_step=1)
    assert "no middleware has ended for 0 s; running: " in caplog.text
    assert "slow" in caplog.text


def test_a_wait_that_nothing_can_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """FEATURES J13: while a middleware without declared fields runs, no other one does."""
    monkeypatch.setattr(events, "_LOOK_S", 0.05)

    task = Task()

    def waits(ctx: OnlineRLContext) -> None:
        task.wait_for("ready")

    def emits(ctx: OnlineRLContext) -> None:
        task.emit("ready")

    with task.start(True, ctx=OnlineRLContext()):
        task.use(waits).use(emits)
        with pytest.raises(TaskError, match=r"'.*waits' waits for event 'ready' while no other"):
            task.run(max_step=3)


def test_a_wait_beside_middleware_that_may_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_LOOK_S", 0.05)
    with Task().start(True, ctx=OnlineRLContext()) as task:

        @middleware(uses=[])
        def waits(ctx: OnlineRLContext) -> None:
            task.wait_for("ready")

        @middleware(uses=[])
        def emits(ctx: OnlineRLContext) -> None:
            time.sleep(0.15)
            task.emit("ready")

        task.use(waits).use(emits).run(max_step=2)


def test_wrappers_locks_and_labels_work() -> None:
    program, lock, timer = Program(), threading.Lock(), StepTimer()
    with Task().start(True, ctx=OnlineRLContext()) as task:
        assert task.labels == {"async", "standalone"}
        for each in program.stages():
            task.use(each, lock=lock)
        task.use_wrapper(timer)
        task.run(max_step=6)
        assert task.ctx.env_step == 18
    assert [row.calls for row in timer.rows() if len(row.path) == 1] == [6] * 4
