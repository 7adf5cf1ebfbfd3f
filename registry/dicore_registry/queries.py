"""Queries of commands: what a package declares, other names of a component, lookup by any name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from dicore_registry import explain
from dicore_registry.entry import Entry, canonical
from dicore_registry.entry_status import RESERVED
from dicore_registry.errors import PluginConflictError, RegistryError, UnknownComponentError
from dicore_registry.registry import Registry
from dicore_registry.requirements import dist_name

__all__ = ["aliases", "look_up", "partners", "provided"]

_ENVIRONMENT = re.compile(r":|-v\d+$|\.py$")
"""What ids of environments and files have, and names of components do not."""


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


def partners(registry: Registry, entry: Entry, target: object) -> dict[str, str]:
    """Returns what a component is tried with: an environment for a policy, a policy for an env.

    That of the component's presets which most presets have; if it has none, of its package's.

    Args:
        registry: Has the presets.
        entry: The component.
        target: What it loads: a policy may declare that it learns from data.

    Returns:
        For an environment `policy`; for a policy `env`, how it is tried (`verb`), and `data`: the
        option that names what it learns from, or "".
    """
    if entry.kind not in ("env", "policy"):
        return {}
    own, other = ("env", "policy") if entry.kind == "env" else ("policy", "env")
    often: Counter[str] = Counter()
    near: Counter[str] = Counter()
    pairs = {(types[own], types[other], dist) for types, dist in _of_presets(registry)}
    for _, found, dist in pairs:
        often[found] += 1
        near[found] += dist == entry.dist
    fits = {found for name, found, _ in pairs if name == entry.name}
    ordered = sorted(often, key=lambda at: (at not in fits, -near[at], -often[at], at))
    if entry.kind == "policy":
        data = " pipeline.dataset.path=DATA" if _needs_data(target) else ""
        verb = "train -e" if getattr(target, "learns", True) else "enjoy"
        return {"env": next(iter(ordered), "…"), "data": data, "verb": verb}
    alone = (name for name in ordered if not _needs_data(registry.resolve("policy", name).target))
    return {"policy": next(alone, "…")}


def _of_presets(registry: Registry) -> Iterator[tuple[dict[str, str], str]]:
    """Yields the names of environment and policy of each preset, and its distribution."""
    for entry in registry.entries("preset"):
        with suppress(RegistryError, AttributeError, LookupError, TypeError):  # a stranger's
            tree: Any = registry.load(entry)
            yield {kind: str(tree[kind]["type"]) for kind in ("env", "policy")}, entry.dist


def _needs_data(policy: object) -> bool:
    return bool(getattr(policy, "offline", False) or getattr(policy, "demonstrations", False))


def look_up(registry: Registry, text: str) -> Entry:
    """Returns the entry of `kind/name`, `kind/dist/name`, or a name that only one kind has.

    Entries that cannot be used are found too; their status has the reason.

    Raises:
        UnknownComponentError: there is none, or several kinds have the name.
        PluginConflictError: several packages declare it.
    """
    try:
        return _looked_up(registry, text)
    except UnknownComponentError as error:
        env, kind = text.removeprefix("env/"), text.partition("/")[0]
        of_another = "/" in env and kind in registry.kinds()
        if error.hint or of_another or not _ENVIRONMENT.search(env):
            raise
        message = f"'{text}' is no name of a component"  # a path has no kind to speak of
        raise UnknownComponentError(
            message if "/" in env else error.message,
            hint=f"an environment by id or file: dicore config show -e {env} -p POLICY has its"
            f" options, dicore check {env} its spaces",
        ) from error


def _looked_up(registry: Registry, text: str) -> Entry:
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
