"""The hook contract: a good hook passes, and each check catches a planted fault."""

from __future__ import annotations

from typing import Any

import pytest

from dicore.errors import ContractError
from dicore.interfaces.hook import LearnerHook
from dicore.testing.hook import HookContract

from .faults import Fault, caught, names_of


class GoodHook(LearnerHook):
    def __init__(
        self, name: str = "good", *, priority: int = 30, position: str = "after_iter"
    ) -> None:
        super().__init__(name, position=position, priority=priority)

    def __call__(self, engine: Any) -> None: ...


def anything_goes(
    self: Any, name: str = "x", priority: Any = 1, position: Any = "after_run"
) -> None:
    self.name, self.priority, self.position = name, priority, position


FAULTS: list[Fault] = [
    ("has_the_attributes", {"name": property(lambda self: "", lambda self, value: None)}),
    ("has_a_default_position", {"position": "sometimes", "__init__": lambda self, **_: None}),
    (
        "has_a_default_position",
        {"position": "after_iter", "priority": True, "__init__": lambda self, **_: None},
    ),
    (
        "accepts_name_priority_and_position",
        {"priority": property(lambda self: 50, lambda self, value: None)},
    ),
    ("invalid_priority_and_position_raise", {"__init__": anything_goes}),
    ("call_takes_only_the_learner", {"__call__": lambda self, engine, step: None}),
]
PLANTED = {HookContract: [check for check, _ in FAULTS]}


class TestGoodHook(HookContract):
    def make(self, **settings: Any) -> GoodHook:
        return GoodHook(**settings)


@pytest.mark.parametrize("fault", FAULTS, ids=names_of(FAULTS))
def test_each_check_catches_its_fault(fault: Fault) -> None:
    assert isinstance(caught(HookContract, GoodHook, fault), ContractError)
