"""Every check of every suite that dicore ships has a planted fault that it catches.

Each test module of a suite says in `PLANTED` which checks its faults are for, and runs them.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType

import pytest

import dicore.testing
from dicore.testing import Suite
from dicore.testing.generic import ComponentContract
from dicore_registry import default
from dicore_registry.importing import import_target

WITHOUT = {"preset": "checked by the suite of all components", "command": "the same"}
"""Kinds that have no suite of their own, and why."""


def _modules(package: ModuleType, prefix: str) -> list[ModuleType]:
    found = pkgutil.walk_packages(package.__path__, prefix)
    return [importlib.import_module(each.name) for each in found]


def _suites() -> list[type[Suite]]:
    """All classes of checks in `dicore.testing`, by what they are and not by who uses them."""
    return sorted(
        {
            cls
            for module in _modules(dicore.testing, "dicore.testing.")
            for _, cls in inspect.getmembers(module, inspect.isclass)
            if issubclass(cls, Suite) and cls.checks() and cls.__module__ == module.__name__
        },
        key=lambda cls: cls.__qualname__,
    )


def _planted() -> dict[type[Suite], list[str]]:
    planted: dict[type[Suite], list[str]] = {}
    root = Path(__file__).parents[3]
    suites = root.glob("tests/*/*/test_suite.py")  # the kinds of other packages
    for file in sorted([*Path(__file__).parent.glob("test_*.py"), *suites]):
        name = ".".join(file.relative_to(root).with_suffix("").parts)
        module = importlib.import_module(name)
        for suite, checks in getattr(module, "PLANTED", {}).items():
            planted.setdefault(suite, []).extend(checks)
    return planted


PLANTED_ANYWHERE = _planted()


@pytest.mark.parametrize("suite", _suites(), ids=lambda cls: cls.__name__)
def test_every_check_has_a_planted_fault(suite: type[Suite]) -> None:
    kin = [each for each in PLANTED_ANYWHERE if issubclass(each, suite)]
    planted = {check for each in kin for check in PLANTED_ANYWHERE[each]}
    without = [check for check in suite.checks() if check not in planted]
    assert not without, f"checks of {suite.__name__} that no planted fault has shown to bite"


@pytest.mark.parametrize("suite", PLANTED_ANYWHERE, ids=lambda cls: cls.__name__)
def test_every_planted_fault_is_for_a_check_that_there_is(suite: type[Suite]) -> None:
    assert not set(PLANTED_ANYWHERE[suite]) - set(suite.checks())


@pytest.mark.parametrize("kind", sorted(default().kinds()))
def test_every_kind_names_a_suite(kind: str) -> None:
    path = default().kinds()[kind].suite
    if kind in WITHOUT:
        assert not path
        return
    module, _, name = path.partition(":")
    suite = import_target(module, name)
    assert suite in PLANTED_ANYWHERE, f"{path}: nothing was planted for it"
    assert suite.__doc__


@pytest.mark.parametrize("suite", _suites(), ids=lambda cls: cls.__name__)
def test_every_check_says_what_it_wants(suite: type[Suite]) -> None:
    silent = [name for name in suite.checks() if not getattr(suite, f"test_{name}").__doc__]
    assert not silent


def test_the_enumeration_sees_what_it_should() -> None:
    """So that an empty list of suites is not taken for a good one."""
    suites = _suites()
    assert ComponentContract in suites
    named = {kind.suite for name, kind in default().kinds().items() if name not in WITHOUT}
    assert len(suites) >= len(named)
