"""The contract of roles without a suite of their own: what is honest passes, faults are caught."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dicore.errors import ContractError
from dicore.interfaces.league import ILeague
from dicore.testing import checks_of, isolated_registry
from dicore.testing.role import RoleContract
from dicore.testing.suite import failures
from dicore_registry import Registry, default
from dicore_registry.importing import import_target

from .faults import Fault, caught, names_of

KINDS = sorted(
    entry.name
    for entry in default().entries("kind")
    if entry.dist == "dicore" and default().kinds()[entry.name].suite.endswith(":RoleContract")
)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with isolated_registry() as registry:
        yield registry


class SoloLeague:
    """One player against its past."""

    def __init__(self, every: int = 10) -> None:
        self.every, self.kept = every, [0]

    def get_job_info(self, player_id: str) -> dict[str, Any]:
        return {"player_id": [player_id, f"{player_id}_{self.kept[-1]}"]}

    def judge_snapshot(self, player_id: str, *, force: bool = False) -> bool:
        return force

    def update_active_player(self, player_info: Any) -> None:
        self.kept.append(player_info["train_iteration"])

    def finish_job(self, job_info: Any) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {"kept": np.array(self.kept)}

    def load_state_dict(self, state: Any) -> None:
        self.kept = state["kept"].tolist()


class League(RoleContract):
    def make(self) -> Any:
        return SoloLeague()

    def contract(self) -> type[Any]:
        return ILeague


def _deaf(self: Any, player_id: str) -> bool:
    return False


FAULTS: list[Fault] = [
    ("has_what_the_contract_names", {"finish_job": property()}),
    ("takes_what_the_contract_gives", {"judge_snapshot": _deaf}),
    ("state_round_trip", {
        "state_dict": lambda self: {"me": np.array(id(self))},
        "load_state_dict": lambda self, state: None,
    }),
]  # fmt: skip
PLANTED = {RoleContract: [check for check, _ in FAULTS]}


def test_an_honest_one_passes() -> None:
    assert failures(League) == {}


@pytest.mark.parametrize("fault", FAULTS, ids=names_of(FAULTS))
def test_a_fault_is_caught_by_its_check(fault: Fault) -> None:
    assert caught(League, lambda cls: lambda self: cls(), SoloLeague, fault) is not None


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
        if check.name == "has_what_the_contract_names"
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
