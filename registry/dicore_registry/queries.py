"""Queries of commands: what a package declares, other names of a component, lookup by any name."""

from __future__ import annotations

from dicore_registry import explain
from dicore_registry.entry import Entry, canonical
from dicore_registry.entry_status import RESERVED
from dicore_registry.errors import PluginConflictError, RegistryError, UnknownComponentError
from dicore_registry.registry import Registry
from dicore_registry.requirements import dist_name

__all__ = ["aliases", "look_up", "provided"]


def provided(registry: Registry, dist: str) -> list[Entry]:
    """Returns all that a distribution declares: also kinds, defaults, plugins, public names.

    Args:
        registry: The registry.
        dist: Its name, in any spelling; `local` for components of decorators.

    Raises:
        UnknownComponentError: it is not installed, or declares nothing.
    """
    others = (entry for kind in RESERVED for entry in registry.entries(kind))
    entries = [*registry.entries(), *(entry for entry in others if entry.status != "broken")]
    found = [entry for entry in entries if entry.dist == dist_name(dist)]
    if not found:
        raise explain.no_package(dist, entries, registry.distributions)
    return sorted(found, key=lambda entry: (entry.kind, entry.name))


def aliases(registry: Registry, entry: Entry) -> list[str]:
    """Returns the other names of a component: of the same target, or renamed to it."""
    renamed = {f"renamed to '{name}' in" for name in (entry.name, entry.qualified)}
    return [
        each.qualified if each.dist != entry.dist else each.name
        for each in map(registry.judged, registry.entries(entry.kind))
        if each.qualified != entry.qualified
        and (each.target == entry.target or each.reason.rpartition(" ")[0] in renamed)
    ]


def look_up(registry: Registry, text: str) -> Entry:
    """Returns the entry of `kind/name`, `kind/dist/name`, or a name that only one kind has.

    Entries that cannot be used are found too; their status has the reason.

    Raises:
        UnknownComponentError: there is none, or several kinds have the name.
        PluginConflictError: several packages declare it.
    """
    kind, slash, name = text.partition("/")
    if not slash:
        kind, name = _only_kind(registry, text), text
    try:
        return registry.find(kind, name)
    except (UnknownComponentError, PluginConflictError):
        raise
    except RegistryError:
        provider, _, bare = name.rpartition("/")
        for entry in registry.entries(kind):
            if entry.name == canonical(bare) and (
                not provider or entry.dist == dist_name(provider)
            ):
                return entry
        raise


def _only_kind(registry: Registry, name: str) -> str:
    key, entries = canonical(name), registry.entries()
    kinds = sorted({entry.kind for entry in entries if entry.name == key})
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        choices = ", ".join(f"'{kind}/{key}'" for kind in kinds)
        raise UnknownComponentError(f"'{name}' exists in {len(kinds)} kinds; use one of: {choices}")
    close = explain.nearest(key, {entry.name for entry in entries})
    hint = f"; did you mean '{close}'?" if close else " (dicore list)"
    raise UnknownComponentError(f"no component named '{name}'{hint}")
