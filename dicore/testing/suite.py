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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar
from unittest import SkipTest

from dicore.errors import ContractError, UsageError
from dicore.testing.component import Component
from dicore_registry import Registry, default
from dicore_registry.importing import import_target

__all__ = [
    "Check",
    "Suite",
    "checks_of",
    "expect",
    "failures",
    "folder",
    "parametrize",
    "refuses",
    "skip",
]

_Test = TypeVar("_Test", bound=Callable[..., Any])


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


@dataclass(frozen=True)
class Check:
    """One check of one component; calling it runs it.

    Args:
        component: The component.
        suite: Where the check stands.
        name: Its name, without `test_`.
    """

    component: Component
    suite: type[Suite]
    name: str

    @property
    def id(self) -> str:
        """`policy/dqn:collect_keeps_ids`."""
        return f"{self.component.label}:{self.name}"

    def __call__(self) -> None:
        """Runs the check.

        Raises:
            ContractError: the component breaks its contract; the text says how.
            unittest.SkipTest: the check does not apply to it.
        """
        bound = type(self.suite.__name__, (self.suite,), {"component": self.component})
        try:
            getattr(bound(), f"test_{self.name}")()
        except (Exception, SkipTest) as error:
            error.add_note(f"check '{self.name}' of {self.component.label}")
            raise


def checks_of(
    *,
    dist: str | None = None,
    component: str | None = None,
    kinds: Sequence[str] | None = None,
    suites: Mapping[str, type[Suite]] | None = None,
    registry: Registry | None = None,
) -> list[Check]:
    """Returns all checks of all chosen components: those of every component, and of its kind.

    Args:
        dist: Only components of this distribution.
        component: Only this one, as `kind/name`.
        kinds: Only components of these kinds.
        suites: Suites by kind, instead of what the kinds name.
        registry: Where to look; None takes everything installed.

    Raises:
        UsageError: nothing that can be used was chosen.
    """
    from dicore.testing.generic import ComponentContract

    registry = default() if registry is None else registry
    found: list[Check] = []
    for entry in registry.entries():
        chosen = (
            entry.status in ("ok", "deprecated", "shadowed", "conflict")
            and dist in (None, entry.dist)
            and component in (None, f"{entry.kind}/{entry.name}")
            and (kinds is None or entry.kind in kinds)
        )
        if not chosen:
            continue
        each = Component(entry, registry)
        suite = (suites or {}).get(entry.kind) or _suite_of(entry.kind, registry)
        for contract in (ComponentContract, suite):
            if contract is not None:
                found += [Check(each, contract, name) for name in contract.checks()]
    if not found:
        raise UsageError(
            f"no component to check: dist={dist}, component={component}, kinds={kinds}",
            hint="dicore list",
        )
    return found


def parametrize(
    *,
    dist: str | None = None,
    component: str | None = None,
    kinds: Sequence[str] | None = None,
    suites: Mapping[str, type[Suite]] | None = None,
    registry: Registry | None = None,
    expected_failures: Mapping[str, str] | None = None,
) -> Callable[[_Test], _Test]:
    """Parametrises a pytest function with the checks of components, as `check`.

    Args:
        dist: Only components of this distribution.
        component: Only this one, as `kind/name`.
        kinds: Only components of these kinds.
        suites: Suites by kind, instead of what the kinds name.
        registry: Where to look; None takes everything installed.
        expected_failures: Reasons by `check` or `kind/name:check`; such a check must fail.

    Returns:
        A mark for a function of one argument `check`, which it has to call.

    Raises:
        UsageError: nothing was chosen, or an expected failure is no check.
    """
    import pytest

    reasons = dict(expected_failures or {})
    checks = checks_of(
        dist=dist, component=component, kinds=kinds, suites=suites, registry=registry
    )
    unknown = reasons.keys() - {check.id for check in checks} - {check.name for check in checks}
    if unknown:
        raise UsageError(f"expected failures that are no checks: {', '.join(sorted(unknown))}")
    cases = []
    for check in checks:
        reason = reasons.get(check.id, reasons.get(check.name))
        marks = () if reason is None else (pytest.mark.xfail(reason=reason, strict=True),)
        cases.append(pytest.param(check, id=check.id, marks=marks))
    mark: Callable[[_Test], _Test] = pytest.mark.parametrize("check", cases)
    return mark


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


def _suite_of(kind: str, registry: Registry) -> type[Suite] | None:
    path = registry.kinds()[kind].suite
    if not path:
        return None
    module, _, name = path.partition(":")
    try:
        suite: type[Suite] = import_target(module, name)
    except Exception as error:
        failure = ContractError(
            f"kind '{kind}' names a suite that does not load: {path}: {error!r}"
        )
        return type("Unloadable", (Suite,), {"test_suite_loads": _raiser(failure)})
    return suite


def _raiser(failure: Exception) -> Callable[[Suite], NoReturn]:
    def check(self: Suite) -> NoReturn:
        """The suite of its kind can be imported."""
        raise failure

    return check
