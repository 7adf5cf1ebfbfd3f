"""Levels of stability of what is public: stable, provisional, experimental."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Final

__all__ = ["LEVELS", "level", "reason"]

LEVELS: Final = ("stable", "provisional", "experimental")
"""From what stays longest to what may change at any time."""


def level(name: str) -> str:
    """Returns the level of a public name of dicore's own packages.

    Args:
        name: `module:Name`, `kind/name`, `dicore command`, `hook NAME`, `file NAME`.
    """
    return _found(name)[0]


def reason(name: str) -> str:
    """Returns why a name is not stable; "" if it is."""
    return _found(name)[1]


@cache
def patterns() -> dict[str, dict[str, str]]:
    """Returns the reasons by level and pattern of names."""
    text = files(__package__).joinpath("levels.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _found(name: str) -> tuple[str, str]:
    for level_name in reversed(LEVELS):
        for pattern, why in patterns().get(level_name, {}).items():
            if fnmatchcase(name, pattern):
                return level_name, why
    return LEVELS[0], ""
