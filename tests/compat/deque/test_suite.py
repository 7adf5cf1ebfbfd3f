"""The contract of buffer middleware: an honest one passes, and each check catches its fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dicore_compat.deque.buffer import DequeBuffer
from dicore_compat.deque.contract import BufferMiddlewareContract
from tests.core.testing.faults import Fault, catches


class InTurn:
    """Draws the items in turn, oldest first; a draw begins where the one before ended."""

    def __init__(self, buffer_: DequeBuffer) -> None:
        self.buffer = buffer_
        self.next = 0

    def __call__(self, action: str, chain: Any, *args: Any, **kwargs: Any) -> Any:
        if action == "sample":
            return self.sample(chain, *args, **kwargs)
        return chain(*args, **kwargs)

    def sample(self, chain: Any, size: int) -> Any:
        order = self.buffer.store.order()
        chosen = [order[(self.next + each) % len(order)] for each in range(size)]
        self.next += size
        return chain(indices=chosen)

    def state_dict(self) -> dict[str, Any]:
        return {"next": self.next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.next = state["next"]


def made(cls: type[Any]) -> Any:
    def make(self: Any) -> Any:
        buffer = DequeBuffer(24, rng=np.random.default_rng(0))
        middleware = cls(buffer)
        buffer.use(middleware)
        return buffer, middleware

    return make


def handling(*actions: str, by: Any) -> dict[str, Any]:
    """Handles these actions by a function `(self, chain, *args, **kwargs)`."""

    def call(self: Any, action: str, chain: Any, *args: Any, **kwargs: Any) -> Any:
        if action in actions:
            return by(self, chain, *args, **kwargs)
        return InTurn.__call__(self, action, chain, *args, **kwargs)

    return {"__call__": call}


def drops(self: Any, chain: Any, *args: Any, **kwargs: Any) -> None: ...


def without_data(self: Any, chain: Any, index: str, data: Any, meta: Any) -> Any:
    return chain(index, None, meta)


def always_true(self: Any, chain: Any, *args: Any) -> bool:
    chain(*args)
    return True


def single_only(self: Any, chain: Any, index: Any) -> None:
    if isinstance(index, str):
        chain(index)


def draws_nothing(self: Any, chain: Any, size: int) -> list[Any]:
    return []


def known_only(self: Any, chain: Any, *args: Any, **kwargs: Any) -> Any:
    raise ValueError("an action that I do not know")


def twice(self: Any, chain: Any, *args: Any, **kwargs: Any) -> Any:
    chain(*args, **kwargs)
    return chain(*args, **kwargs)


def without_options(self: Any, chain: Any, *args: Any, **kwargs: Any) -> Any:
    return chain(*args)


def returns_nothing(self: Any, chain: Any, *args: Any, **kwargs: Any) -> None:
    chain(*args, **kwargs)


def goes_on(self: Any, chain: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return chain(*args, **kwargs)
    except RuntimeError:
        return None


def marks_stored_items(self: Any, chain: Any, size: int) -> Any:
    for item in self.buffer.store._items.values():  # past the buffer, which cannot undo it
        item.meta["asked_for"] = True
    return InTurn.sample(self, chain, size)


def by_chance(self: Any, chain: Any, size: int) -> Any:
    order = self.buffer.store.order()
    return chain(indices=self.rng.choice(order, size).tolist())


def with_own_generator(self: Any, buffer_: DequeBuffer) -> None:
    InTurn.__init__(self, buffer_)
    self.rng = np.random.default_rng()


FAULTS: list[Fault] = [
    ("passes_actions_on", handling("push", by=drops)),
    ("passes_actions_on", {"sample": draws_nothing}),
    ("passes_actions_on", handling("update", by=drops)),
    ("passes_actions_on", handling("update", by=without_data)),
    ("passes_actions_on", handling("update", by=always_true)),
    ("passes_actions_on", handling("delete", by=drops)),
    ("passes_actions_on", handling("delete", by=single_only)),
    ("passes_actions_on", handling("clear", by=drops)),
    ("leaves_other_actions_alone", handling("another_action", by=known_only)),
    ("leaves_other_actions_alone", handling("another_action", by=drops)),
    ("leaves_other_actions_alone", handling("another_action", by=twice)),
    ("leaves_other_actions_alone", handling("another_action", by=without_options)),
    ("leaves_other_actions_alone", handling("another_action", by=returns_nothing)),
    ("an_error_comes_through", handling("push", by=goes_on)),
    ("an_error_comes_through", handling("clear", by=goes_on)),
    ("an_error_comes_through", handling("sample", by=goes_on)),
    ("an_error_comes_through", {"sample": marks_stored_items}),
    ("goes_on_after_a_restart", {"load_state_dict": lambda self, state: None}),
    ("goes_on_after_a_restart", {"state_dict": lambda self: {"next": 0}}),
    ("goes_on_after_a_restart", {"__init__": with_own_generator, "sample": by_chance}),
]
PLANTED = {BufferMiddlewareContract: [check for check, _ in FAULTS]}


class TestInTurn(BufferMiddlewareContract):
    make = made(InTurn)


test_each_check_catches_its_fault = catches(BufferMiddlewareContract, InTurn, FAULTS, made)
