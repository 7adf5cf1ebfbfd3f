"""What two configs do not agree on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dicore.config.compiled import Compiled
from dicore.config.plain import to_dict

__all__ = ["MISSING", "differences", "tree_differences"]

MISSING: Final = "(not there)"
"""Stands for the value of an option that one of the two does not have."""


def differences(one: Compiled, other: Compiled) -> dict[str, tuple[Any, Any]]:
    """Returns both values of every option that differs, by path, in the order of the config.

    Where two parts are of different types, `type` and the options of either are told.
    """
    return tree_differences(to_dict(one.cfg), to_dict(other.cfg))


def tree_differences(
    one: Mapping[str, Any], other: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Returns the same of two configs as nested dicts."""
    return dict(_walk(one, other, ""))


def _walk(one: Any, other: Any, path: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys([*one, *other]):
            below = f"{path}.{key}" if path else str(key)
            yield from _walk(one.get(key, MISSING), other.get(key, MISSING), below)
    elif _are_parts(one) and _are_parts(other) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other, strict=True)):
            yield from _walk(*pair, f"{path}[{index}]")
    elif not _same(one, other):
        yield path, (one, other)


def _are_parts(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(item, Mapping) for item in value)
    )


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return not any(_walk(one, other, ""))
    return type(one) is type(other) and (one == other or (one != one and other != other))  # noqa: PLR0124 - NaN
