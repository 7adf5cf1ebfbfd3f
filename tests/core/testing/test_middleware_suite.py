"""The middleware contract: good ones pass, and each check catches a planted fault."""

from __future__ import annotations

from typing import Any

from dicore.task import middleware
from dicore.testing.middleware import MiddlewareContract

from .faults import Fault, catches


class GoodMiddleware:
    reads = ("train_data",)
    writes = ("train_output", "train_iter")
    optional = ("collect_kwargs",)

    def __call__(self, ctx: Any) -> Any:
        ctx.train_output = [len(ctx.train_data)]
        ctx.train_iter += 1
        yield
        ctx.collect_kwargs.clear()


def asks_for_more(self: Any, ctx: Any, cfg: Any) -> None: ...


def reads_secretly(self: Any, ctx: Any) -> None:
    ctx.train_iter += ctx.env_step


def reads_afterwards(self: Any, ctx: Any) -> Any:
    yield
    assert ctx.eval_value < 1


def writes_secretly(self: Any, ctx: Any) -> None:
    ctx.env_step = len(ctx.train_data)


def once_only(self: Any, ctx: Any) -> None:
    if ctx.total_step:
        raise RuntimeError("a second step")


def twice(self: Any, ctx: Any) -> Any:
    yield
    yield


FAULTS: list[Fault] = [
    ("call_takes_only_the_context", {"__call__": asks_for_more}),
    ("declares_fields_of_its_context", {"writes": ("train_outptu",)}),
    ("declares_fields_of_its_context", {"optional": ("no_such_field",)}),
    ("uses_only_declared_fields", {"__call__": reads_secretly}),
    ("uses_only_declared_fields", {"__call__": reads_afterwards}),
    ("uses_only_declared_fields", {"__call__": writes_secretly}),
    ("runs_several_steps", {"__call__": once_only}),
    ("runs_several_steps", {"__call__": twice}),
]
PLANTED = {MiddlewareContract: [check for check, _ in FAULTS]}


class Contract(MiddlewareContract):
    def prepare(self, ctx: Any) -> None:
        ctx.train_data = [1, 2, 3]


class TestGoodMiddleware(Contract):
    def make(self) -> GoodMiddleware:
        return GoodMiddleware()


class TestFactory(Contract):
    """A function made by a factory, which clears a field that it only looks at."""

    def make(self) -> Any:
        @middleware(optional=["train_data"])
        def push(ctx: Any) -> None:
            assert ctx.train_data
            ctx.train_data = None

        return push


test_each_check_catches_its_fault = catches(Contract, GoodMiddleware, FAULTS)
