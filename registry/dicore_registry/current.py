"""The registry of this process, and the decorator that adds to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from dicore_registry.local import caller
from dicore_registry.registry import Registry

T = TypeVar("T")

_registries: list[Registry] = []


def default() -> Registry:
    """Returns the registry of everything installed; one per process."""
    if not _registries:
        _registries.append(Registry())
    return _registries[-1]


@contextmanager
def using(registry: Registry) -> Iterator[Registry]:
    """Makes `default()` return another registry for the time of a block, in all threads."""
    _registries.append(registry)
    try:
        yield registry
    finally:
        _registries.remove(registry)


def register(kind: str, name: str, *, override: bool = False) -> Callable[[T], T]:
    """Registers the decorated object with `default()`; see `Registry.register`."""
    return default().registering(kind, name, caller(1), override=override)
