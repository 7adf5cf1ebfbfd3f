"""Checks what methods return that a policy of somebody overrides."""

from __future__ import annotations

from typing import TypeVar

from dicore.errors import UsageError

__all__ = ["returned"]

T = TypeVar("T")


def returned(found: T | None, policy: object, method: str) -> T:
    """Returns what a method returned.

    Args:
        found: What it returned.
        policy: Whose method it is.
        method: Its name.

    Raises:
        UsageError: it returned nothing.
    """
    if found is None:
        raise UsageError(
            f"{type(policy).__name__}.{method} returned None",
            hint="end the method by return, with what the one that it overrides returns",
        )
    return found
