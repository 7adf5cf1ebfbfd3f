"""Conformance suites: the contract of a role as named checks for any component.

The methods `test_*` of a suite are its checks. Use it in one of two ways:

    class TestContract(BufferContract):   # in a test file; make() returns the tested object
        def make(self, capacity):
            return MyBuffer(capacity)

    @parametrize(dist="my-package")       # by the registry: all components of a package
    def test_component(check):
        check()

Checks take no arguments and need no pytest. A check that does not apply raises
`unittest.SkipTest`, which pytest reports as skipped.
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

__all__ = ["Suite", "expect", "expect_members", "failures", "folder", "refuses", "skip"]


class Suite:
    """Base class of suites."""

    component: ClassVar[Component | None] = None
    """The tested component; None if a subclass creates the tested object."""

    @classmethod
    def checks(cls) -> tuple[str, ...]:
        """Returns the names of the checks, without `test_`, in the order of definition."""
        found = {
            name: None for base in reversed(cls.__mro__) for name in vars(base)
            if name.startswith("test_") and getattr(cls, name, None) is not None
        }  # fmt: skip
        return tuple(name.removeprefix("test_") for name in found)

    @property
    def registered(self) -> Component:
        """The tested component.

        Raises:
            UsageError: there is none; the subclass has to override `make`.
        """
        if self.component is None:
            raise UsageError(
                f"{type(self).__name__} has no component to test", hint="override make()"
            )
        return self.component


def failures(suite: type[Suite]) -> dict[str, Exception]:
    """Runs all checks of a suite that overrides `make`.

    Returns:
        The exceptions of failing checks by name; checks that do not apply are omitted.
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
    """Asserts a property of a component.

    Raises:
        ContractError: it does not hold.
    """
    if not holds:
        raise ContractError(message)


def expect_members(made: object, contract: type, *names: str) -> None:
    """Asserts that an object, or its class, has the members of a Protocol; names those it lacks.

    Args:
        made: The object.
        contract: The Protocol.
        *names: Only these members; none: all.

    Raises:
        ContractError: it lacks some.
    """
    lacks = [name for name in names or members_of(contract) if not _has(made, name, contract)]
    label = made.__name__ if isinstance(made, type) else type(made).__name__
    expect(not lacks, f"{label} lacks {', '.join(lacks)} of {contract.__name__}")


def members_of(contract: type) -> list[str]:
    """Returns the public members of a Protocol and its bases, and the special ones it needs."""
    found: dict[str, None] = {}
    for base in contract.__mro__:
        if getattr(base, "_is_protocol", False):
            found |= dict.fromkeys([*vars(base), *vars(base).get("__annotations__", {})])
    special = ("__len__", "__call__", "__getitem__", "__iter__")
    return [name for name in found if name[0] != "_" or name in special]


def _has(made: object, name: str, contract: type) -> bool:
    try:
        value = getattr(made, name, _ABSENT)
    except Exception:  # a property that cannot be read yet
        return True
    is_method = callable(getattr(contract, name, None))
    return value is not _ABSENT and not (is_method and value is None)


_ABSENT = object()


@contextmanager
def refuses(errors: type[Exception] | tuple[type[Exception], ...], what: str) -> Iterator[None]:
    """Asserts that a block raises one of `errors`; `what` describes the block.

    Raises:
        ContractError: it raised nothing or another exception.
    """
    wanted = errors if isinstance(errors, tuple) else (errors,)
    names = " or ".join(error.__name__ for error in wanted)
    try:
        yield
    except SkipTest:
        raise
    except wanted:
        return
    except Exception as other:
        raise ContractError(f"{what} must raise {names}, but raised {other!r}") from other
    raise ContractError(f"{what} must raise {names}, but raised nothing")


def skip(reason: str) -> NoReturn:
    """Skips a check that does not apply."""
    raise SkipTest(reason)


@contextmanager
def folder() -> Iterator[Path]:
    """Creates a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="dicore-") as name:
        yield Path(name)
