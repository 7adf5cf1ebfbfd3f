"""`typing.get_type_hints` on public objects: names imported for checkers alone make it fail."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import pytest

FAILING = {
    "dicore": 85,
    "dicore_registry": 16,
    "dicore_plugins": 381,
    "dicore_dist": 50,
    "dicore_compat": 29,
    "dicore_contrib_envs": 18,
}
"""How many fail today, in each package; a number here may only fall."""


def public_objects(package: str) -> Iterator[tuple[str, object]]:
    """Yields the functions, classes and methods that a package defines under public names."""
    root = import_module(package)
    names = [each.name for each in walk_packages(root.__path__, f"{package}.")]
    for name in (package, *(name for name in names if ".testing" not in name)):
        for key, value in vars(import_module(name)).items():
            if key.startswith("_") or getattr(value, "__module__", "") != name:
                continue
            if inspect.isfunction(value) or inspect.isclass(value):
                yield f"{name}.{key}", value
            for method, raw in vars(value).items() if inspect.isclass(value) else ():
                found = getattr(raw, "fget", getattr(raw, "__func__", raw))
                if inspect.isfunction(found) and (method[0] != "_" or method == "__init__"):
                    yield f"{name}.{key}.{method}", found


def resolves(value: object) -> bool:
    try:
        typing.get_type_hints(value)
    except (NameError, TypeError):
        return False
    return True


@pytest.mark.parametrize("package", FAILING)
def test_hints_fail_on_no_more_objects(package: str) -> None:
    failing = [name for name, value in public_objects(package) if not resolves(value)]
    assert len(failing) <= FAILING[package], failing
