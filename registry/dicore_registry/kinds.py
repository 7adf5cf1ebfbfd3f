"""The kinds that the installed packages declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dicore_registry.errors import PluginLoadError
from dicore_registry.kind import Kind

if TYPE_CHECKING:
    from dicore_registry.registry import Registry


class Kinds(Mapping[str, Kind]):
    """The kinds by name, each imported when it is looked at."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        usable = ("ok", "conflict")
        self._entries = {e.name: e for e in registry.entries("kind") if e.status in usable}

    def __getitem__(self, name: str) -> Kind:
        kind = self._registry.load(self._entries[name])
        if not isinstance(kind, Kind):
            raise PluginLoadError(f"{self._entries[name].label} is no dicore_registry.Kind")
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries
