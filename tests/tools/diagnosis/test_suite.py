"""The contract of rules: an honest one passes, and each check catches its fault."""

from __future__ import annotations

from typing import Any

import pytest

from dicore.errors import ContractError
from dicore.testing.suite import failures
from dicore_tools.diagnosis.contract import DiagnosisRuleContract
from dicore_tools.diagnosis.evidence import Evidence
from dicore_tools.diagnosis.finding import Finding
from tests.core.testing.faults import error_of


def falls(run: Evidence) -> Finding | None:
    """Returns fall."""
    values = run.values("evaluator/return_mean", at_least=4)
    return Finding("they fall", "", ()) if values[-1] < values[0] else None


def silent(run: Evidence) -> Finding | None:
    return falls(run)


def guesses(run: Evidence) -> Finding | None:
    """Finds a fault everywhere."""
    return Finding("all", "", ())


def says_yes(run: Evidence) -> Any:
    """Returns True."""
    return bool(len(run.values("evaluator/return_mean")))


def scales(run: Evidence) -> Finding | None:
    """Scales what it reads."""
    values = run.values("evaluator/return_mean")
    values *= 2
    return None


silent.__doc__ = None
FAULTS = {
    "says_what_it_finds": silent,
    "is_silent_without_evidence": guesses,
    "finds_or_returns_none": says_yes,
    "changes_nothing": scales,
}
PLANTED = {DiagnosisRuleContract: [*FAULTS]}


def suite_of(rule: Any) -> type[DiagnosisRuleContract]:
    return type("Contract", (DiagnosisRuleContract,), {"make": lambda _: rule})


def test_an_honest_rule_passes() -> None:
    assert failures(suite_of(falls)) == {}


@pytest.mark.parametrize(("check", "rule"), FAULTS.items())
def test_each_check_catches_its_fault(check: str, rule: Any) -> None:
    assert isinstance(error_of(suite_of(rule), check), ContractError)
