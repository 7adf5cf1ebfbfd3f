"""Planting faults: a good implementation with some members replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import SkipTest

import pytest

from dicore.testing.suite import Suite

Fault = tuple[str, dict[str, Any]]
"""The check that must catch it, and the members of the good class that it replaces."""


def broken(good: type[Any], members: dict[str, Any]) -> type[Any]:
    return type(f"Broken{good.__name__}", (good,), members)


def passed_on(cls: type[Any]) -> Callable[..., Any]:
    """Returns a `make` that passes its arguments on to a class."""
    return lambda self, *args, **more: cls(*args, **more)


def caught(
    contract: type[Suite],
    good: type[Any],
    fault: Fault,
    make: Callable[[type[Any]], Any] = passed_on,
) -> Exception | None:
    """Runs the named check over a broken class; returns its error.

    Args:
        contract: The suite.
        good: The good class.
        fault: What to break, and the check that has to notice.
        make: Turns a class into the suite's `make`.
    """
    check, members = fault
    assert check in contract.checks(), f"there is no check '{check}'"
    suite = type("Contract", (contract,), {"make": make(broken(good, members))})
    return error_of(suite, check)


def error_of(suite: type[Suite], check: str) -> Exception | None:
    """Returns the error of one check of a suite; None if it holds or does not apply."""
    try:
        getattr(suite(), f"test_{check}")()
    except SkipTest:
        return None
    except Exception as error:
        return error
    return None


def catches(
    contract: type[Suite],
    good: type[Any],
    faults: Sequence[Fault],
    make: Callable[[type[Any]], Any] = passed_on,
) -> Callable[[Fault], None]:
    """Returns a test that each check catches its faults; see `caught`."""

    @pytest.mark.parametrize("fault", faults, ids=names_of(faults))
    def test_each_check_catches_its_fault(fault: Fault) -> None:
        assert caught(contract, good, fault, make) is not None

    return test_each_check_catches_its_fault


def names_of(faults: Sequence[Fault]) -> list[str]:
    """Returns an id for each fault: its check, and what it breaks."""
    return [f"{check}-{'-'.join(members)}" for check, members in faults]
