"""Conformance suites: what a role promises, as named checks that any component can be put to.

A suite is a class whose methods `test_*` are the checks. It is used in two ways:

    class TestContract(BufferContract):   # inherited in a test file; make() says what is tested
        def make(self, capacity):
            return MyBuffer(capacity)

    @parametrize(dist="my-package")       # through the registry: all components of a package
    def test_component(check):
        check()

Checks take no arguments and need no pytest; one that does not apply raises `unittest.SkipTest`,
which pytest reports as skipped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, NoReturn
from unittest import SkipTest

from dicore.errors import ContractError, UsageError
from dicore.testing.component import Component

__all__ = [
    "Suite",
    "expect",
    "failures",
    "folder",
    "refuses",
    "skip",
]


class Suite:
    """Base of suites; holds nothing but the component under test."""

    component: ClassVar[Component | None] = None
    """What the registry gave; None where a subclass makes its object itself."""

    @classmethod
    def checks(cls) -> tuple[str, ...]:
        """Returns the names of the checks, without `test_`, in the order they are written."""
        found = {
            name: None for base in reversed(cls.__mro__) for name in vars(base)
            if name.startswith("test_") and getattr(cls, name, None) is not None
        }  # fmt: skip
        return tuple(name.removeprefix("test_") for name in found)

    @property
    def registered(self) -> Component:
        """The component that the registry gave.

        Raises:
            UsageError: there is none, and the subclass does not make its object itself.
        """
        if self.component is None:
            raise UsageError(
                f"{type(self).__name__} does not say what to test", hint="override its make()"
            )
        return self.component


def failures(suite: type[Suite]) -> dict[str, Exception]:
    """Runs all checks of a suite that makes its own object.

    Returns:
        What each failing check raised, by the check's name; those that do not apply are left out.
    """
    found: dict[str, Exception] = {}
    for name in suite.checks():
        try:
            getattr(suite(), f"test_{name}")()
        except SkipTest:
            continue
        except Exception as error:
            found[name] = error
    return found


def expect(holds: object, message: str) -> None:
    """States what a component must do.

    Raises:
        ContractError: it does not hold.
    """
    if not holds:
        raise ContractError(message)


@contextmanager
def refuses(errors: type[Exception] | tuple[type[Exception], ...], what: str) -> Iterator[None]:
    """States that a block must raise one of `errors`; `what` says what is done there.

    Raises:
        ContractError: it raised nothing, or something else.
    """
    wanted = errors if isinstance(errors, tuple) else (errors,)
    names = " or ".join(error.__name__ for error in wanted)
    try:
        yield
    except wanted:
        return
    except Exception as other:
        raise ContractError(f"{what} must raise {names}, it raised {other!r}") from other
    raise ContractError(f"{what} must raise {names}, nothing was raised")


def skip(reason: str) -> NoReturn:
    """Says that a check does not apply."""
    raise SkipTest(reason)


@contextmanager
def folder() -> Iterator[Path]:
    """Makes a folder for the time of a block."""
    with tempfile.TemporaryDirectory(prefix="dicore-") as name:
        yield Path(name)
