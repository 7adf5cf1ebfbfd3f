"""The order of halves, for any mixture of middleware, against a model of a stack."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dicore.task import Context, Task

PLAIN, YIELDS, ENDS_EARLY, HIDDEN = "plain", "yields", "ends early", "hidden"
leaf = st.sampled_from([PLAIN, YIELDS, ENDS_EARLY, HIDDEN])
program = st.lists(
    st.recursive(
        leaf,
        lambda inner: st.tuples(
            st.sampled_from(["serial", "sequence", "parallel"]),
            st.lists(inner, min_size=1, max_size=4),
        ),
        max_leaves=8,
    ),
    min_size=1,
    max_size=6,
)


def make(kind: str, name: int, log: list[Any]) -> Callable[[Context], Any]:
    def yields(ctx: Context) -> Generator[None, None, None]:
        log.append((ctx.total_step, name))
        if kind == ENDS_EARLY:
            return
        yield
        log.append((ctx.total_step, -name))

    def plain(ctx: Context) -> None:
        log.append((ctx.total_step, name))

    def hidden(ctx: Context) -> Any:
        return yields(ctx)

    return {PLAIN: plain, HIDDEN: hidden}.get(kind, yields)


class Model:
    """What should happen, told by a list and a stack."""

    def __init__(self) -> None:
        self.forward: list[int] = []
        self.stack: list[int] = []

    def add(self, kind: str) -> int:
        name = len(self.forward) + 1
        self.forward.append(name)
        if kind in (YIELDS, HIDDEN):
            self.stack.append(-name)
        return name

    def steps(self, count: int) -> list[Any]:
        one = [*self.forward, *reversed(self.stack)]
        return [(step, name) for step in range(count) for name in one]


def build(task: Task, node: Any, model: Model, log: list[Any]) -> Callable[[Context], Any]:
    if isinstance(node, str):
        return make(node, model.add(node), log)
    how, inner = node
    return getattr(task, how)(*(build(task, each, model, log) for each in inner))


@given(program, st.integers(0, 4))
def test_forward_in_order_backward_in_reverse(nodes: list[Any], steps: int) -> None:
    log: list[Any] = []
    model = Model()
    with Task().start() as task:
        for node in nodes:
            task.use(build(task, node, model, log))
        task.run(max_step=steps)
    assert log == model.steps(steps)


@given(program, st.data())
def test_whatever_fails_every_suspended_half_is_closed(nodes: list[Any], data: Any) -> None:
    """After an exception at any place each opened generator has been closed, and nothing ran on."""
    log: list[Any] = []
    model = Model()
    open_now: list[int] = []

    def tracked(ctx: Context, name: int) -> Generator[None, None, None]:
        open_now.append(name)
        try:
            yield
        finally:
            open_now.remove(name)

    fails_at = data.draw(st.integers(0, len(nodes)))
    failed = ValueError("planted")

    def fails(ctx: Context) -> None:
        raise failed

    surfaced: BaseException | None = None
    task = Task()
    try:
        with task.start():
            for index, node in enumerate(nodes):
                if index == fails_at:
                    task.use(fails)
                task.use(lambda ctx, name=index: tracked(ctx, name))
                task.use(build(task, node, model, log))
            if fails_at == len(nodes):
                task.use(fails)
            task.run(max_step=2)
    except ValueError as error:
        surfaced = error
    assert surfaced is failed
    assert open_now == []
    assert all(name > 0 for _, name in log), "no backward half ran"
    assert not task.running
