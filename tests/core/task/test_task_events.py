"""Events of a task: on, once, off, wait_for, and errors of listeners."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from dicore.errors import TaskError
from dicore.task import Task


def test_listeners_are_told_in_order_with_the_arguments() -> None:
    heard: list[Any] = []
    with Task().start() as task:
        task.on("model", lambda *args, **kwargs: heard.append(("on", args, kwargs)))
        task.once("model", lambda *args, **kwargs: heard.append(("once", args, kwargs)))
        task.emit("model", 1, version=2)
        task.emit("model", 3)
        task.emit("another", 4)
    assert heard == [("on", (1,), {"version": 2}), ("once", (1,), {"version": 2}), ("on", (3,), {})]


def test_off_forgets_one_or_all() -> None:
    heard: list[str] = []

    def first(value: int) -> None:
        heard.append(f"first {value}")

    def second(value: int) -> None:
        heard.append(f"second {value}")

    with Task().start() as task:
        task.on("x", first)
        task.on("x", second)
        task.once("x", first)
        task.off("x", first)
        task.emit("x", 1)
        task.off("x")
        task.off("x", second)
        task.off("never heard of")
        task.emit("x", 2)
    assert heard == ["second 1"]


def test_once_that_emits_again_is_told_once() -> None:
    heard: list[int] = []
    with Task().start() as task:

        def again(value: int) -> None:
            heard.append(value)
            task.emit("x", value + 1)

        task.once("x", again)
        task.emit("x", 0)
    assert heard == [0]


def test_only_remote_tells_nobody_here() -> None:
    heard: list[int] = []
    with Task().start() as task:
        task.on("x", heard.append)
        task.emit("x", 1, only_remote=True)
        task.emit("x", 2, only_local=True)
        with pytest.raises(TaskError, match="both"):
            task.emit("x", 3, only_remote=True, only_local=True)
    assert heard == [2]


def test_a_listeners_error_surfaces_within_the_step_that_emitted() -> None:
    after: list[int] = []

    def listener() -> None:
        raise OSError("full")

    with Task().start() as task:
        task.on("save", listener)
        task.use(lambda ctx: task.emit("save")).use(lambda ctx: after.append(1))
        with pytest.raises(OSError, match="full") as raised:
            task.run(max_step=2)
    assert after == []
    assert "listener" in raised.value.__notes__[0]
    assert "event 'save'" in raised.value.__notes__[0]
    assert "raised in middleware" in raised.value.__notes__[1]


@pytest.mark.parametrize("half", ["forward", "backward"])
def test_a_listeners_error_keeps_its_traceback_and_its_step(half: str) -> None:
    """Raised where it happened, in the step that emitted, whichever half of a middleware it was."""
    steps: list[int] = []

    def listener(step: int) -> None:
        if step == 1:
            raise OSError("full")

    def middleware(ctx: Any) -> Any:
        if half == "forward":
            task.emit("save", ctx.total_step)
        yield
        if half == "backward":
            task.emit("save", ctx.total_step)

    with Task().start() as task:
        task.on("save", listener)
        task.use(lambda ctx: steps.append(ctx.total_step)).use(middleware)
        with pytest.raises(OSError, match="full") as raised:
            task.run(max_step=5)
    assert steps == [0, 1]
    assert raised.traceback[-1].name == "listener"
    assert raised.value.__notes__[1].endswith(".middleware' at total_step 1")


def test_a_listener_is_a_callable() -> None:
    with Task().start() as task, pytest.raises(TaskError, match="'x' must be callable, got 3"):
        task.on("x", 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(("args", "answer"), [((), None), ((5,), 5), ((5, 6), (5, 6))])
def test_wait_for_returns_what_another_thread_emits(args: tuple[int, ...], answer: Any) -> None:
    answered = threading.Event()

    def emit() -> None:
        while not answered.wait(0.01):  # what is emitted before the wait begins is not heard
            task.emit("ready", *args)

    with Task().start() as task:
        thread = threading.Thread(target=emit)
        thread.start()
        assert task.wait_for("ready", timeout=30.0) == answer
        answered.set()
        thread.join()


def test_wait_for_gives_up_quietly_or_loudly() -> None:
    heard: list[int] = []
    with Task().start() as task:
        assert task.wait_for("never", timeout=0.001) is None
        with pytest.raises(TimeoutError, match=r"'never' was not emitted within 0\.001 s"):
            task.wait_for("never", timeout=0.001, ignore_timeout_exception=False)
        task.on("never", heard.append)
        task.emit("never", 1)
    assert heard == [1], "who gave up listens no more"


def test_the_end_of_the_task_wakes_who_waits() -> None:
    task = Task()
    waiting = threading.Event()
    raised: list[BaseException] = []

    def wait() -> None:
        waiting.set()
        try:
            task.wait_for("never")
        except TaskError as error:
            raised.append(error)

    with task.start():
        thread = threading.Thread(target=wait)
        thread.start()
        waiting.wait()
        while not task._waiting:
            threading.Event().wait(0.001)
    thread.join(60)
    assert not thread.is_alive()
    assert "ended before event 'never'" in str(raised[0])
