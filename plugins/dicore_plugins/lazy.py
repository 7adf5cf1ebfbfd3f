"""Lazy package attributes: public names are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, homes: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Returns a module `__getattr__` (PEP 562).

    Args:
        package: `__name__` of the package.
        homes: Public names by module, relative to the package (`.base`) or absolute.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        home = home_of[name]
        return getattr(import_module(f"{package}{home}" if home[0] == "." else home), name)

    return load
