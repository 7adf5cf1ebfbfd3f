"""Lazy package attributes: public names are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a module `__getattr__` (PEP 562).

    Args:
        package: `__name__` of the package.
        homes: Module of each public name, relative to the package (`.base`) or absolute.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        home = homes[name]
        return getattr(import_module(f"{package}{home}" if home[0] == "." else home), name)

    return load
