"""The checks of registered components, as a list or as parameters of a pytest function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar
from unittest import SkipTest

from dicore.errors import ContractError, UsageError
from dicore.testing.component import Component
from dicore.testing.generic import ComponentContract
from dicore.testing.suite import Suite, skip
from dicore_registry import Registry, Removed, Renamed, default
from dicore_registry.importing import import_target
from dicore_registry.queries import provided

__all__ = ["Check", "checks_of", "parametrize"]

_Test = TypeVar("_Test", bound=Callable[..., Any])


@dataclass(frozen=True)
class Check:
    """One check of one component; calling it runs it.

    Args:
        component: The component.
        suite: The suite with the check.
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
            ContractError: the component violates its contract; the message describes how.
            unittest.SkipTest: the check does not apply to it.
        """
        bound = type(self.suite.__name__, (self.suite,), {"component": self.component})
        try:
            target = self.component.target
            if self.name != "loads" and isinstance(target, Renamed | Removed):
                skip(target.reason)
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
    """Returns the checks of the selected components: the generic ones and those of its kind.

    Args:
        dist: Only components of this distribution.
        component: Only this component, as `kind/name`.
        kinds: Only components of these kinds.
        suites: Suites by `kind` or `kind/name`, instead of those of the kinds.
        registry: The registry; None: that of all installed packages.

    Raises:
        UsageError: no usable component was selected.
        UnknownComponentError: the distribution is not installed, or declares nothing.
    """
    registry = default() if registry is None else registry
    found: list[Check] = []
    kind = None if component is None else component.partition("/")[0]
    entries = registry.entries(kind) if dist is None else provided(registry, dist)
    dist = None if dist is None else entries[0].dist
    for entry in entries:
        chosen = (
            entry.status in ("ok", "deprecated", "shadowed", "conflict")
            and entry.kind != "default"
            and dist in (None, entry.dist)
            and component in (None, f"{entry.kind}/{entry.name}")
            and (kinds is None or entry.kind in kinds)
        )
        if not chosen:
            continue
        each = Component(entry, registry)
        given = suites or {}
        suite = given.get(f"{entry.kind}/{entry.name}") or given.get(entry.kind)
        if suite is None and entry.kind in registry.kinds():
            suite = _suite_of(entry.kind, registry)
        generic = ComponentContract.checks_for(each)
        found += [Check(each, ComponentContract, name) for name in generic]
        if suite is not None:
            found += [Check(each, suite, name) for name in suite.checks()]
    if not found:
        asked = {"dist": dist, "component": component, "kinds": kinds}
        choice = ", ".join(f"{name}={value}" for name, value in asked.items() if value is not None)
        hint = "run dicore list" if dist is None else "run dicore doctor"
        raise UsageError(f"no component to check: {choice}", hint=hint)
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
    """Parametrizes a pytest function with the checks of components, as `check`.

    Args:
        dist: Only components of this distribution.
        component: Only this component, as `kind/name`.
        kinds: Only components of these kinds.
        suites: Suites by `kind` or `kind/name`, instead of those of the kinds.
        registry: The registry; None: that of all installed packages.
        expected_failures: Reasons by `check` or `kind/name:check`; these checks must fail.

    Returns:
        A mark for a function that calls its only argument, `check`.

    Raises:
        UsageError: no component was selected, or an expected failure is not a check.
    """
    import pytest

    reasons = dict(expected_failures or {})
    checks = checks_of(
        dist=dist, component=component, kinds=kinds, suites=suites, registry=registry
    )
    unknown = reasons.keys() - {check.id for check in checks} - {check.name for check in checks}
    if unknown:
        raise UsageError(f"unknown checks in expected_failures: {', '.join(sorted(unknown))}")
    cases = []
    for check in checks:
        reason = reasons.get(check.id, reasons.get(check.name))
        marks = () if reason is None else (pytest.mark.xfail(reason=reason, strict=True),)
        cases.append(pytest.param(check, id=check.id, marks=marks))
    mark: Callable[[_Test], _Test] = pytest.mark.parametrize("check", cases)
    return mark


def _suite_of(kind: str, registry: Registry) -> type[Suite] | None:
    path = registry.kinds()[kind].suite
    if not path:
        return None
    module, _, name = path.partition(":")
    try:
        suite: type[Suite] = import_target(module, name)
    except Exception as error:
        failure = ContractError(f"the suite of kind '{kind}' failed to import: {path}: {error!r}")
        return type("Unloadable", (Suite,), {"test_suite_loads": _raiser(failure)})
    return suite


def _raiser(failure: Exception) -> Callable[[Suite], NoReturn]:
    def check(self: Suite) -> NoReturn:
        """The suite of its kind can be imported."""
        raise failure

    return check
