"""A wrong order of middleware is reported before the first step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from dicore.errors import TaskError
from dicore.task import Context, OnlineRLContext, Task, middleware

ran: list[str] = []


@middleware(reads=["env_step"], writes=["trajectories", "env_step"], optional=["collect_kwargs"])
def collect(ctx: OnlineRLContext) -> None:
    ran.append("collect")


@middleware(reads=["trajectories"])
def push(ctx: OnlineRLContext) -> None:
    ran.append("push")


@middleware(writes=["train_data"], optional=["train_output"])
def fetch(ctx: OnlineRLContext) -> Any:
    ran.append("fetch")
    yield


class Trainer:
    """Declares by attributes, without the decorator."""

    reads = ("train_data", "train_iter")
    writes = ("train_output",)

    def __call__(self, ctx: OnlineRLContext) -> None:
        ran.append("train")


def undeclared(ctx: Context) -> None:
    ran.append("undeclared")


def run(*fns: Callable[[Any], Any]) -> None:
    ran.clear()
    with Task().start(ctx=OnlineRLContext()) as task:
        for fn in fns:
            task.use(fn)
        task.run(max_step=1)


def test_a_right_order_runs() -> None:
    run(undeclared, collect, push, fetch, Trainer())
    assert ran == ["undeclared", "collect", "push", "fetch", "train"]


def test_a_trainer_before_its_fetcher_is_reported_before_running() -> None:
    with pytest.raises(TaskError) as raised:
        run(collect, Trainer(), fetch)
    assert raised.value.message == (
        "'Trainer' reads ctx.train_data, which no earlier middleware writes or leaves; 'fetch' does"
    )
    assert ran == []


def test_every_wrong_place_is_reported_at_once() -> None:
    with pytest.raises(TaskError) as raised:
        run(push, Trainer())
    assert raised.value.context["problems"] == (
        "'push' reads ctx.trajectories, which no earlier middleware writes or leaves",
        "'Trainer' reads ctx.train_data, which no earlier middleware writes or leaves",
    )


def test_its_own_write_comes_too_late_for_a_reader() -> None:
    @middleware(reads=["train_data"], writes=["train_data"])
    def enhance(ctx: OnlineRLContext) -> None:
        ran.append("enhance")

    with pytest.raises(TaskError, match=r"no earlier middleware writes or leaves\n"):
        run(enhance)
    run(fetch, enhance)


def test_kept_fields_may_be_read_first() -> None:
    @middleware(reads=["env_step", "train_iter", "last_eval_iter", "total_step"])
    def reads_kept(ctx: OnlineRLContext) -> None: ...

    run(reads_kept, collect)


def test_a_field_the_context_lacks_is_named() -> None:
    @middleware(writes=["trian_data"])
    def typo(ctx: OnlineRLContext) -> None: ...

    with pytest.raises(TaskError, match="'trian_data', which OnlineRLContext lacks"):
        run(typo)


@middleware(reads=["env_step"], writes=["collect_kwargs"])
def explore(ctx: OnlineRLContext) -> Any:
    ran.append("explore")
    yield


def test_what_is_written_after_its_only_reader_is_reported() -> None:
    """J47: it would be lost, as the next step starts without it."""
    run(explore, collect)
    with pytest.raises(TaskError) as raised:
        run(collect, undeclared, explore)
    said = "'explore' writes ctx.collect_kwargs after 'collect', which would read it, has run"
    assert raised.value.message == said
    assert ran == []


@pytest.mark.parametrize("first", [collect, explore])
def test_what_is_written_after_all_its_readers_is_reported(first: Any) -> None:
    """Even if there are several readers, or an earlier middleware writes it too."""
    with pytest.raises(TaskError, match=r"'explore' writes ctx\.collect_kwargs after 'collect'"):
        run(first, collect, explore)
    run(first, explore, collect)


def hidden(fn: Callable[[Any], Any], ctx: OnlineRLContext) -> Any:
    return fn(ctx)


def test_what_is_read_in_the_backward_pass_may_be_written_later() -> None:
    """So does `fetch` with the results of `Trainer`; also behind a lock and a wrapper."""
    with Task().start(ctx=OnlineRLContext()) as task:
        task.use(fetch, lock=True).use(Trainer()).use_wrapper(lambda fn: partial(hidden, fn))
        task.run(max_step=1)


def test_members_of_a_serial_count_in_order_and_of_a_parallel_together() -> None:
    def combined(how: str) -> None:
        with Task().start(ctx=OnlineRLContext()) as task:
            task.use(getattr(task, how)(fetch, Trainer())).run(max_step=1)

    combined("serial")
    combined("sequence")
    with pytest.raises(TaskError, match=r"'Trainer' reads ctx\.train_data.*'fetch' does"):
        combined("parallel")
    with Task().start(ctx=OnlineRLContext()) as task:
        task.use(task.parallel(fetch, collect)).use(task.parallel(Trainer(), push)).run(max_step=1)


def test_a_declaration_is_a_collection_of_names() -> None:
    with pytest.raises(
        TaskError, match="'reads' must be a collection of field names, got 'train_data'"
    ):
        middleware(reads="train_data")(lambda ctx: None)

    class Wrong(Trainer):
        writes = (1,)  # type: ignore[assignment]

    with pytest.raises(TaskError, match="'writes' must be a collection"):
        run(Wrong())


@middleware(either=["trajectories", "episodes"], optional=["trajectories", "episodes"])
def push_either(ctx: OnlineRLContext) -> None:
    ran.append("push")


def test_of_several_fields_one_has_to_come_before() -> None:
    ran.clear()
    task = Task().start(ctx=OnlineRLContext())
    task.use(push_either)
    task.use(collect)
    said = r"'push_either' reads ctx\.trajectories, which no earlier .* leaves; 'collect' does"
    with pytest.raises(TaskError, match=said):
        task.run(max_step=1)
    assert not ran


@pytest.mark.parametrize("parts", [(collect, push_either), (push_either,)])
def test_it_may_come_after_or_from_somebody_who_declares_nothing(parts: Any) -> None:
    ran.clear()
    task = Task().start(ctx=OnlineRLContext())
    for part in parts:
        task.use(part)
    task.run(max_step=1)
    assert ran[-1] == "push"


def test_a_context_that_lacks_fields_is_what_is_to_be_changed() -> None:
    task = Task().start(ctx=Context())
    task.use(Trainer())
    with pytest.raises(TaskError, match="which Context lacks") as caught:
        task.run(max_step=1)
    assert "such as OnlineRLContext" in str(caught.value.hint)
