"""The contract of roles without a suite of their own: what is honest passes, faults are caught."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dicore.errors import ContractError
from dicore.interfaces.world_model import IWorldModel
from dicore.testing import checks_of, isolated_registry
from dicore.testing.role import RoleContract
from dicore.testing.suite import failures
from dicore_registry import Registry, default
from dicore_registry.importing import import_target

from .faults import Fault, catches

KINDS = sorted(
    entry.name
    for entry in default().entries("kind")
    if entry.dist == "dicore" and default().kinds()[entry.name].suite.endswith(":RoleContract")
)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with isolated_registry() as registry:
        yield registry


class MeanReward:
    """A world model that predicts the mean reward and no change."""

    def __init__(self) -> None:
        self.mean = np.zeros((), np.float32)

    def should_train(self, env_step: int) -> bool:
        return env_step > 0

    def train(self, data: Any) -> dict[str, float]:
        self.mean = data["reward"].mean()
        return {}

    def step(self, obs: Any, action: Any) -> tuple[Any, Any, Any]:
        return obs, np.full(len(obs), self.mean), np.zeros(len(obs), np.bool_)

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self.mean}

    def load_state_dict(self, state: Any) -> None:
        self.mean = state["mean"]


class WorldModel(RoleContract):
    def make(self) -> Any:
        return MeanReward()

    def contract(self) -> type[Any]:
        return IWorldModel


FAULTS: list[Fault] = [
    ("has_the_members_of_the_protocol", {"should_train": property()}),
    ("accepts_the_arguments_of_the_protocol", {"step": lambda self, obs: obs}),
    ("state_round_trip", {
        "state_dict": lambda self: {"me": np.array(id(self))},
        "load_state_dict": lambda self, state: None,
    }),
]  # fmt: skip
PLANTED = {RoleContract: [check for check, _ in FAULTS]}


def test_an_honest_one_passes() -> None:
    assert failures(WorldModel) == {}


test_each_check_catches_its_fault = catches(WorldModel, MeanReward, FAULTS)


@pytest.mark.parametrize("kind", KINDS)
def test_through_the_registry_the_kind_says_what_is_checked(kind: str, registry: Registry) -> None:
    """What names nothing of its contract is found, whatever its kind."""

    class Empty:
        """Has nothing."""

        if kind == "optimizer":

            def __init__(self, params: Iterator[Any]) -> None:
                pass

    registry.register(kind, "empty")(Empty)
    (check,) = [
        check
        for check in checks_of(component=f"{kind}/empty", registry=registry)
        if check.name == "has_the_members_of_the_protocol"
    ]
    with pytest.raises(ContractError, match="Empty lacks "):
        check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_contract_is_a_protocol(kind: str) -> None:
    facts = default().kinds()[kind]
    module, _, name = facts.contract.partition(":")
    contract = import_target(module, name)
    assert contract._is_protocol
    assert contract._is_runtime_protocol
    assert facts.name == kind
