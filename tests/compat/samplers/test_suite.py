"""The contract of samplers: a small honest unit passes, and each check catches its fault."""

from __future__ import annotations

from typing import Any

import numpy as np

from dicore.testing.suite import failures
from dicore_compat.samplers.contract import SamplerContract
from tests.core.testing.faults import Fault, catches


class Rows:
    """Draws rows of the observations of a chunk."""

    def __call__(self, data: Any, info: Any) -> Any:
        obs = data["/observations"].reshape(-1, data["/observations"].shape[-1])
        return {"/observations": obs[self.rows(info, len(obs))]}

    def rows(self, info: Any, count: int) -> Any:
        return info["rng"].integers(0, count, 8)


def nothing(self: Any, data: Any, info: Any) -> Any:
    data["/observations"]


def in_place(self: Any, data: Any, info: Any) -> Any:
    data["/observations"][:] = 0
    return data


FAULTS: list[Fault] = [
    ("returns_data", {"__call__": nothing}),
    ("changes_nothing", {"__call__": in_place}),
    (
        "repeats_with_the_same_random_numbers",
        {"rows": lambda self, info, count: np.random.default_rng().integers(0, count, 8)},
    ),
]
PLANTED = {SamplerContract: [check for check, _ in FAULTS]}

test_each_check_catches_its_fault = catches(
    SamplerContract, Rows, FAULTS, lambda cls: lambda self: cls()
)


def test_an_honest_unit_passes() -> None:
    suite = type("Contract", (SamplerContract,), {"make": lambda self: Rows()})
    assert failures(suite) == {}
