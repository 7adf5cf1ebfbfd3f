"""Task: steps, order, both kinds of middleware, manual loops, errors, the life of a block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import pytest

import dicore_registry
from dicore.errors import TaskError
from dicore.task import Context, OnlineRLContext, Task, middleware
from dicore.task import task as global_task

Halves = Generator[None, None, None]
Middleware = Callable[[Any], Any]


def says(log: list[str], name: str) -> Middleware:
    """A generator middleware that writes `name1` before its yield and `name2` after it."""

    def fn(ctx: Context) -> Halves:
        log.append(f"{name}1")
        yield
        log.append(f"{name}2")

    return fn


def notes(log: list[str], name: str) -> Middleware:
    def fn(ctx: Context) -> None:
        log.append(name)

    return fn


class Collector:
    """A middleware that is an object and yields."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __call__(self, ctx: Context) -> Halves:
        self.log.append("forward")
        yield
        self.log.append("backward")


def test_what_follows_the_yield_sees_the_same_context() -> None:
    def collect(ctx: OnlineRLContext) -> Halves:
        ctx.collect_kwargs["eps"] = 0.5
        yield
        assert ctx.train_iter == 1
        ctx.collect_kwargs.pop("eps")

    def train(ctx: OnlineRLContext) -> None:
        assert ctx.collect_kwargs == {"eps": 0.5}
        ctx.train_iter += 1

    with Task().start(ctx=OnlineRLContext()) as task:
        task.use(collect).use(train).run(max_step=1)
        assert task.ctx.collect_kwargs == {}


@pytest.mark.parametrize("form", ["function", "object", "method", "partial", "wrapped", "lambda"])
def test_every_form_of_a_generator_is_recognised(form: str) -> None:
    """Factories give functions, objects call, and a wrapper hides the generator inside it."""
    log: list[str] = []
    collector = Collector(log)

    def with_cfg(cfg: Any, ctx: Context) -> Halves:
        yield from collector(ctx)

    def iter_of(halves: Halves) -> Halves:
        return halves

    def wrapped(ctx: Context) -> Any:
        return collector(ctx)

    fn: Middleware = {
        "function": says(log, "x"),
        "object": collector,
        "method": collector.__call__,
        "partial": partial(with_cfg, {}),
        "wrapped": wrapped,
        "lambda": lambda ctx: iter_of(collector(ctx)),
    }[form]
    with Task().start() as task:
        task.use(fn).use(notes(log, "between")).run(max_step=1)
    assert [entry[-1] for entry in log] in (["1", "n", "2"], ["d", "n", "d"])
    assert log[1] == "between"


def test_a_second_yield_is_an_error_with_the_name() -> None:
    def twice(ctx: Context) -> Halves:
        yield
        yield

    with (
        Task().start() as task,
        pytest.raises(TaskError, match=r"twice' yields more than once"),
    ):
        task.use(twice).run(max_step=1)


async def fetch(ctx: Context) -> None: ...


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (Collector, r"Collector is a class.*task\.use\(Collector\(\.\.\.\)\)"),
        (3, "a callable that takes the context, got 3"),
        (says([], "a")(Context()), r"'says\.fn' was called already.*task\.use\(says\.fn\)"),
        (lambda cfg, policy: None, r"cannot be called with only a context.*factory"),
        (lambda: None, "cannot be called with only a context"),
        (fetch, "async function"),
    ],
)
def test_use_refuses_what_cannot_run(fn: Any, says: str) -> None:
    with Task().start() as task, pytest.raises(TaskError, match=f"(?s){says}"):
        task.use(fn)


def test_a_factory_that_was_not_called_is_told_so() -> None:
    def make(cfg: Any) -> Middleware:
        return lambda ctx: None

    with Task().start() as task, pytest.raises(TaskError, match="is it a factory") as raised:
        task.use(make).run(max_step=1)
    assert "make" in raised.value.message


# Loops of one's own ---------------------------------------------------------------------------


def by_run(task: Task, fns: list[Middleware], steps: int) -> None:
    for fn in fns:
        task.use(fn)
    task.run(max_step=steps)


def by_forward(task: Task, fns: list[Middleware], steps: int) -> None:
    for step in range(steps):
        for fn in fns:
            task.forward(fn)
        task.backward()
        if step < steps - 1:
            task.renew()


def by_renew(task: Task, fns: list[Middleware], steps: int) -> None:
    for step in range(steps):
        for fn in fns:
            task.forward(fn, task.ctx)
        if step < steps - 1:
            assert task.renew() is task
        else:
            task.sync().backward()


def by_wrap(task: Task, fns: list[Middleware], steps: int) -> None:
    wrapped = [task.wrap(fn) for fn in fns]
    for step in range(steps):
        ends = [fn(task.ctx) for fn in wrapped]
        for end in reversed(ends):
            end()
        if step < steps - 1:
            task.renew()


@pytest.mark.parametrize("drive", [by_run, by_forward, by_renew, by_wrap])
def test_a_loop_by_hand_equals_run(drive: Callable[[Task, list[Middleware], int], None]) -> None:
    log: list[str] = []

    def count(ctx: OnlineRLContext) -> None:
        ctx.env_step += 8
        log.append(f"step {ctx.total_step} env {ctx.env_step} data {ctx.train_data}")
        ctx.train_data = [ctx.total_step]

    with Task().start(ctx=OnlineRLContext()) as task:
        drive(task, [says(log, "a"), count, says(log, "b")], 3)
        assert (task.ctx.total_step, task.ctx.env_step) == (2, 24)

    assert log == [
        entry
        for step in range(3)
        for entry in ("a1", f"step {step} env {8 * (step + 1)} data None", "b1", "b2", "a2")
    ]


def test_a_wrapped_half_left_alone_runs_in_backward_and_once() -> None:
    log: list[str] = []
    with Task().start() as task:
        end_a = task.wrap(says(log, "a"))(task.ctx)
        task.wrap(says(log, "b"))(task.ctx)
        task.backward()
        end_a()
    assert log == ["a1", "b1", "b2", "a2"]


def test_renew_gives_a_new_context() -> None:
    with Task().start(ctx=OnlineRLContext(env_step=5)) as task:
        before = task.ctx
        task.renew()
        assert task.ctx is not before
        assert (task.ctx.total_step, task.ctx.env_step) == (1, 5)


def test_a_middleware_may_not_renew_or_run() -> None:
    with Task().start() as task:
        task.use(lambda ctx: task.renew() and None)
        with pytest.raises(TaskError, match="renew was called by a middleware"):
            task.run(max_step=1)
    with Task().start() as task:
        task.use(lambda ctx: task.run(max_step=1))
        with pytest.raises(TaskError, match="run was called by a middleware"):
            task.run(max_step=1)


# Ending ---------------------------------------------------------------------------------------


def test_finish_ends_after_the_present_step() -> None:
    log: list[str] = []

    with Task().start() as task:

        def evaluate(ctx: Context) -> None:
            if ctx.total_step == 2:
                task.finish = True

        task.use(evaluate).use(says(log, "a")).run()
        assert task.finish
        assert task.ctx.total_step == 2
        task.run(max_step=5)
        assert task.ctx.total_step == 2, "what asked for the end still stands"
    assert log == ["a1", "a2"] * 3
    assert not task.finish


def test_the_last_step_of_a_budget_is_known_as_such() -> None:
    """A saver placed last can write its final checkpoint within the last step."""
    seen: list[bool] = []
    with Task().start() as task:
        task.use(lambda ctx: seen.append(task.finish)).run(max_step=3)
        assert seen == [False, False, True]
        task.run(max_step=2)
        assert seen == [False, False, True, False, True]
        assert task.ctx.total_step == 4, "a second run goes on counting"


def test_stop_inside_a_step_ends_after_it() -> None:
    log: list[str] = []
    with Task().start() as task:
        task.use(lambda ctx: task.stop()).use(says(log, "a")).run()
        assert task.running
    assert log == ["a1", "a2"]


def test_start_and_stop_work_without_a_block() -> None:
    task = Task().start()
    task.use(lambda ctx: None).run(max_step=1)
    task.stop()
    task.stop()
    assert not task.running


def test_a_second_start_is_fresh() -> None:
    log: list[str] = []
    task = Task()
    with task.start(ctx=OnlineRLContext(env_step=3), labels=["collector"]):
        task.use(says(log, "old")).run(max_step=1)
        task.on("x", log.append)
        task.finish = True
        assert task.labels == {"collector", "standalone"}
    log.clear()
    with task.start():
        assert type(task.ctx) is Context
        assert not task.finish
        assert task.labels == {"standalone"}
        task.emit("x", "heard")
        task.use(says(log, "new")).run(max_step=1)
    assert log == ["new1", "new2"]


def test_a_nested_start_is_refused_and_harmless() -> None:
    log: list[str] = []
    with Task().start() as task:
        task.use(says(log, "a"))
        with pytest.raises(TaskError, match="running already"), task.start():
            raise AssertionError("not reached")
        task.run(max_step=1)
    assert log == ["a1", "a2"]


@pytest.mark.parametrize(
    "call",
    [
        lambda task: task.use(lambda ctx: None),
        lambda task: task.run(max_step=1),
        lambda task: task.forward(lambda ctx: None),
        lambda task: task.backward(),
        lambda task: task.renew(),
        lambda task: task.sync(),
        lambda task: task.ctx,
        lambda task: task.emit("x"),
        lambda task: task.on("x", print),
        lambda task: task.once("x", print),
        lambda task: task.off("x"),
        lambda task: task.wait_for("x", timeout=0.0),
        lambda task: setattr(task, "finish", True),
        lambda task: task.wrap(lambda ctx: None)(Context()),
        lambda task: task.__enter__(),
    ],
)
def test_outside_of_a_block_there_is_no_task(call: Callable[[Task], Any]) -> None:
    task = Task()
    with pytest.raises(TaskError, match=r"(?s)needs a running task.*with task\.start"):
        call(task)
    with task.start():
        pass
    with pytest.raises(TaskError, match="needs a running task"):
        call(task)


def test_run_refuses_what_makes_no_sense() -> None:
    with Task().start() as task:
        with pytest.raises(TaskError, match="no middleware"):
            task.run(max_step=1)
        task.use(lambda ctx: None)
        for wrong in (-1, 2.5, "5"):  # 2.5 would never be reached, so never end
            with pytest.raises(TaskError, match="max_step must be an int >= 0"):
                task.run(max_step=wrong)  # type: ignore[arg-type]
        task.run(max_step=0)
        assert task.ctx.total_step == 0
    with pytest.raises(TaskError, match="ctx must be an instance"):
        Task().start(ctx={"total_step": 0})  # type: ignore[arg-type]
    with pytest.raises(TaskError, match="n_async_workers"):
        Task().start(n_async_workers=0)


def test_async_mode_needs_an_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dicore_registry, "default", lambda: dicore_registry.Registry([]))
    with pytest.raises(TaskError, match="no installed package has one") as raised:
        (task := Task()).start(async_mode=True)
    assert "pip install dicore-plugins" in str(raised.value.hint)
    assert not task.running


def test_the_module_holds_one_task_for_the_process() -> None:
    steps: list[int] = []
    with global_task.start(async_mode=False, n_async_workers=3, ctx=None, labels=None):
        global_task.use(lambda ctx: steps.append(ctx.total_step))
        global_task.run(max_step=2)
    assert steps == [0, 1]
    assert not global_task.running


# Errors ---------------------------------------------------------------------------------------


def half(log: list[str], name: str, *, fails: str) -> Middleware:
    def fn(ctx: Context) -> Halves:
        if fails == "forward":
            raise KeyError(name)
        try:
            yield
        finally:
            log.append(name)
        if fails == "backward":
            raise KeyError(name)

    return fn


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("drive", [by_run, by_forward, by_wrap])
def test_an_exception_surfaces_as_itself_with_the_middleware_named(
    where: str, drive: Callable[[Task, list[Middleware], int], None]
) -> None:
    ended: list[str] = []
    task = Task()
    fns = [half(ended, "first", fails=""), half(ended, "second", fails=where)]

    with pytest.raises(KeyError, match="second") as raised, task.start():
        drive(task, fns, 3)

    assert raised.value.__notes__ == ["raised in middleware 'half.fn' at total_step 0"]
    assert raised.traceback[-1].name == "fn", "the original traceback leads to the line"
    assert ended == (["first"] if where == "forward" else ["second", "first"])
    with task.start():
        task.use(lambda ctx: None).run(max_step=1)


def test_the_names_of_combined_middleware_stand_from_inside_out() -> None:
    def broken(ctx: Context) -> None:
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad") as raised, Task().start() as task:
        task.use(task.serial(lambda ctx: None, broken)).run(max_step=1)

    names = [note.split("'")[1] for note in raised.value.__notes__]
    assert names[0].endswith("broken")
    assert names[1].startswith("serial(")


def test_a_hidden_generator_is_named_after_what_was_used() -> None:
    log: list[str] = []

    def outer(ctx: Context) -> Any:
        return half(log, "x", fails="backward")(ctx)

    with pytest.raises(KeyError) as raised, Task().start() as task:
        task.use(outer, lock=True).run(max_step=1)
    assert "outer'" in raised.value.__notes__[0]


def test_a_lambda_is_named_by_its_place() -> None:
    with pytest.raises(ZeroDivisionError) as raised, Task().start() as task:
        task.use(lambda ctx: 1 // 0).run(max_step=1)
    assert "<lambda> (test_task.py:" in raised.value.__notes__[0]


def leave_with(error: Exception | None, *fns: Middleware) -> None:
    """Leaves a block while middleware are suspended."""
    task = Task()
    try:
        with task.start():
            for fn in fns:
                task.forward(fn)
            if error is not None:
                raise error
    finally:
        assert not task.running


def test_leaving_the_block_ends_what_is_suspended_last_first() -> None:
    ended: list[str] = []
    with pytest.raises(RuntimeError, match="mine"):
        leave_with(RuntimeError("mine"), half(ended, "a", fails=""), half(ended, "b", fails=""))
    assert ended == ["b", "a"]


def test_a_failure_to_end_neither_hides_the_error_nor_spares_the_others() -> None:
    ended: list[str] = []

    def stubborn(ctx: Context) -> Halves:
        try:
            yield
        finally:
            raise OSError("disk")

    with pytest.raises(RuntimeError, match="mine") as raised:
        leave_with(RuntimeError("mine"), half(ended, "a", fails=""), stubborn)
    assert ended == ["a"]
    assert any("stubborn' failed too" in note for note in raised.value.__notes__)

    with pytest.raises(OSError, match="disk") as surfaced:
        leave_with(None, half(ended, "a", fails=""), stubborn)
    assert ended == ["a", "a"]
    assert "stubborn'" in surfaced.value.__notes__[0]


def test_a_failed_run_leaves_nothing_behind_for_the_next() -> None:
    """Caught inside the block: the next run starts a new step, without old halves."""
    log: list[str] = []

    def fails_once(ctx: Context) -> None:
        log.append(f"step {ctx.total_step}")
        if ctx.total_step == 0:
            raise ValueError("once")

    with Task().start() as task:
        task.use(says(log, "a")).use(fails_once)
        with pytest.raises(ValueError, match="once"):
            task.run(max_step=5)
        task.run(max_step=1)
    assert log == ["a1", "step 0", "a1", "step 1", "a2"]


def test_an_interrupt_ends_what_is_suspended() -> None:
    ended: list[str] = []

    def interrupted(ctx: Context) -> None:
        raise KeyboardInterrupt

    with Task().start() as task:
        task.use(half(ended, "a", fails="")).use(interrupted)
        with pytest.raises(KeyboardInterrupt):
            task.run(max_step=1)
        assert ended == ["a"]


# Locks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("locked", [True, False])
def test_a_lock_keeps_runs_of_a_middleware_apart(locked: bool) -> None:
    """Two threads drive one middleware; without the lock both are inside at once."""
    inside, most = 0, 0
    both_started = threading.Barrier(2)

    def slow(ctx: Context) -> Halves:
        nonlocal inside, most
        for _ in range(2):
            inside += 1
            most = max(most, inside)
            threading.Event().wait(0.02)
            inside -= 1
            if _ == 0:
                yield

    with Task().start() as task:
        wrapped = task.wrap(slow, lock=locked)

        def drive() -> None:
            both_started.wait()
            wrapped(Context())()

        threads = [threading.Thread(target=drive) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == (1 if locked else 2)


def test_a_shared_lock_is_free_between_the_halves() -> None:
    lock = threading.Lock()
    log: list[str] = []
    with Task().start() as task:
        task.use(says(log, "a"), lock=lock)
        task.use(lambda ctx: log.append("held" if lock.locked() else "free"))
        task.use(lambda ctx: log.append("held" if lock.locked() else "free"), lock=lock)
        task.run(max_step=1)
    assert log == ["a1", "free", "held", "a2"]
    assert not lock.locked()


# Labels and roles -----------------------------------------------------------------------------


def test_one_label_may_be_given_as_a_string() -> None:
    with Task().start(labels="distributed") as task:
        assert task.labels == {"distributed", "standalone"}


def test_labels_match_patterns() -> None:
    with Task().start(labels=["node.3"]) as task:
        assert task.labels == {"node.3", "standalone"}
        assert task.match_labels("node.*")
        assert task.match_labels(["async", "stand*"])
        assert not task.match_labels(["async", "node.4"])


@pytest.mark.parametrize("role", ["lerner", "LEARNER", "learners", "colector"])
def test_a_role_that_is_nearly_one_is_refused(role: str) -> None:
    """All middleware bound to roles would be left out without a word."""
    with Task().start() as task:
        with pytest.raises(TaskError, match=r"did you mean '(learner|collector)'"):
            task.add_role(role)
        task.add_role("logbook")
        assert task.roles == {"logbook"}


@pytest.mark.parametrize("combined", [None, "serial", "parallel"])
@pytest.mark.parametrize("roles", [(), ("collector",), ("collector", "learner")])
def test_middleware_of_another_role_is_left_out(
    roles: tuple[str, ...], combined: str | None
) -> None:
    """A process that only collects skips the trainer; one without roles does everything."""
    ran: list[str] = []
    fns = {
        name: middleware(role=name)(notes(ran, name))
        for name in (Task.role.COLLECTOR, Task.role.LEARNER)
    }
    with Task().start() as task:
        for role in roles:
            task.add_role(role)
        assert task.has_role(task.role.COLLECTOR)
        assert task.has_role("evaluator") is (not roles)
        members = (*fns.values(), notes(ran, "any"))
        for fn in members if combined is None else [getattr(task, combined)(*members)]:
            task.use(fn)
        task.run(max_step=1)
    assert ran == [*(roles or fns), "any"]
    with task.start():
        assert task.has_role(task.role.EVALUATOR), "roles are those of one start"
