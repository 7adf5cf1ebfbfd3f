"""The contract of planners: honest ones pass, and each check catches its fault."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from dicore.testing.suite import failures
from dicore_worlds.planning.config import GumbelConfig, PUCTConfig
from dicore_worlds.planning.contract import PlannerContract
from dicore_worlds.planning.gumbel import Gumbel
from dicore_worlds.planning.puct import PUCT
from tests.core.testing.faults import Fault, catches


class Honest(PUCT):
    def __init__(self) -> None:
        super().__init__(PUCTConfig())


def changed(**changes: Any) -> Any:
    """Returns a `plan` whose result is changed."""

    def plan(self: Any, model: Any, root: Any, rng: Any, **options: Any) -> Any:
        found = PUCT.plan(self, model, root, rng, **options)
        return attrs.evolve(found, **{key: change(found) for key, change in changes.items()})

    return plan


def together(self: Any, model: Any, root: Any, rng: Any, **options: Any) -> Any:
    found = PUCT.plan(self, model, root, rng, **options)
    return attrs.evolve(found, policy=np.roll(found.policy, 1, 0))


def never(self: Any, model: Any, root: Any, rng: Any, **options: Any) -> Any:
    return PUCT.plan(self, model, root, rng, **{**options, "explore": False})


def own(self: Any, model: Any, root: Any, rng: Any, **options: Any) -> Any:
    return PUCT.plan(self, model, root, np.random.default_rng(), **options)


FAULTS: list[Fault] = [
    ("has_the_members_of_the_protocol", {"plan": None}),
    ("finds_the_best_action", {"plan": changed(action=lambda found: found.policy.argmin(1))}),
    ("estimates_the_value", {"plan": changed(value=lambda found: found.value + 6)}),
    ("policies_are_probabilities", {"plan": changed(policy=lambda found: found.policy * 2)}),
    (
        "never_takes_a_forbidden_action",
        {"plan": changed(action=lambda found: np.ones_like(found.action))},
    ),
    ("plans_each_state_by_itself", {"plan": together}),
    ("repeats_with_the_same_random_numbers", {"plan": own}),
    ("explores", {"plan": never}),
]
PLANTED = {PlannerContract: [check for check, _ in FAULTS]}

test_each_check_catches_its_fault = catches(
    PlannerContract, Honest, FAULTS, lambda cls: lambda self: cls()
)


@pytest.mark.parametrize(
    "made", [PUCT(PUCTConfig()), Gumbel(GumbelConfig())], ids=["puct", "gumbel"]
)
def test_honest_planners_pass(made: Any) -> None:
    suite = type("Contract", (PlannerContract,), {"make": lambda self: made})
    assert failures(suite) == {}
