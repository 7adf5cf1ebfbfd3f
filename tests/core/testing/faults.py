"""Planting faults: a good implementation with some members replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dicore.testing.suite import Suite, failures

Fault = tuple[str, dict[str, Any]]
"""The check that must catch it, and the members of the good class that it replaces."""


def broken(good: type[Any], members: dict[str, Any]) -> type[Any]:
    return type(f"Broken{good.__name__}", (good,), members)


def caught(
    contract: type[Suite], make: Callable[[type[Any]], Any], good: type[Any], fault: Fault
) -> Exception | None:
    """Runs a contract over a broken class; returns what the named check said.

    Args:
        contract: The suite.
        make: Turns a class into the suite's `make`.
        good: The good class.
        fault: What to break, and which check has to notice.
    """
    check, members = fault
    assert check in contract.checks(), f"there is no check '{check}'"
    suite = type("Contract", (contract,), {"make": make(broken(good, members))})
    return failures(suite).get(check)


def names_of(faults: Sequence[Fault]) -> list[str]:
    """Returns an id for each fault: its check, and what it breaks."""
    return [f"{check}-{'-'.join(members)}" for check, members in faults]
