"""The checks of `dicore doctor`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlparse
from urllib.request import url2pathname

from dicore.hookspecs.manager import Diagnostic, Level
from dicore_registry import LOCAL, Entry, Registry, nearest
from dicore_registry.entry_status import RESERVED
from dicore_registry.metadata import Dist, everywhere
from dicore_tools.import_probe import probe_imports

__all__ = ["check_imports", "check_metadata", "check_statuses"]

_LEVELS: Final[dict[str, Level]] = {
    "broken": "error",
    "conflict": "error",
    "incompatible": "error",
    "unavailable": "warning",
    "shadowed": "warning",
}
_SLOW_IMPORT_S: Final = 0.2
"""Importing the module of a config class should take less."""


def check_statuses(registry: Registry) -> Iterator[Diagnostic]:
    """Yields entries that cannot be used by name, and errors in the project's settings."""
    for text in registry.project.problems:
        yield Diagnostic("error", "", text, check="project")
    for (kind, name), dist in registry.switches.prefer.items():
        if not any(e.dist == dist and e.name == name for e in registry.entries(kind)):
            text = f"the project prefers '{dist}/{name}', which is not installed"
            yield Diagnostic("error", f"{kind}/{name}", text, f"pip install {dist}", "prefer")
    for declared in [*registry.entries(), *_reserved(registry)]:
        entry = registry.judged(declared)
        level = _LEVELS.get(entry.status)
        if level is not None:
            text = f"{entry.status}: {entry.reason}"
            yield Diagnostic(level, _about(entry), text, check=entry.status)


def _reserved(registry: Registry) -> list[Entry]:
    """Returns public names, kinds, defaults and plugins that `entries` does not list."""
    found = [entry for kind in RESERVED for entry in registry.entries(kind)]
    return [entry for entry in found if entry.status not in ("broken", "shadowed")]


def _about(entry: Entry) -> str:
    return f"{entry.kind}/{entry.name} ({entry.provider})"


def check_metadata(registry: Registry) -> Iterator[Diagnostic]:
    """Yields missing or outdated metadata of the packages."""
    for dist in registry.distributions.values():
        if dist.fault:
            yield Diagnostic("warning", dist.name, dist.fault, "reinstall it", "meta")
    yield from _check_filters(registry)
    entries = [*registry.entries(), *_reserved(registry)]
    names = {entry.dist for entry in entries} - {LOCAL}
    for name in sorted(names):
        dist = registry.distributions[name]
        ranges = [each.specifier for each in dist.requirements if each.name == "dicore"]
        if not any(ranges) and name != "dicore":
            text = "does not declare which versions of dicore it supports"
            hint = 'add a range to its dependencies: "dicore>=0.1,<0.2"'
            yield Diagnostic("warning", name, text, hint, "host-range")
        if not dist.version:
            yield Diagnostic("error", name, "its metadata has no version", "reinstall it", "meta")
        yield from _check_editable(dist)
    yield from _check_duplicates(names)


def _check_filters(registry: Registry) -> Iterator[Diagnostic]:
    """Yields names in the allow and deny lists that match nothing installed."""
    switches = registry.switches
    listed = [*switches.deny.items(), *((name, switches.allow_by) for name in switches.allow or ())]
    entries = registry.entries()
    known = {name for e in entries for name in (e.dist, f"{e.kind}/{e.name}", e.qualified)}
    for name, by in listed:
        if name not in known and name not in registry.distributions:
            close = nearest(name, known)
            hint = f"did you mean '{close}'?" if close else ""
            yield Diagnostic("warning", by, f"'{name}' matches nothing installed", hint, "switch")


def _check_editable(dist: Dist) -> Iterator[Diagnostic]:
    """Compares the entry points in the pyproject.toml of an editable package to the installed."""
    project = _project(dist)
    if project is None:
        return
    wanted = {
        (group, name, str(value))
        for group, entries in _declared(project).items()
        if group.startswith("dicore")
        for name, value in entries.items()
    }
    installed = {(line.group, line.name, line.value) for line in dist.lines}
    hint = f"reinstall it: pip install -e {_folder(dist)}"
    for group, name, _ in sorted(wanted - installed):
        text = f"{group}: {name} is declared in its pyproject.toml, but not installed"
        yield Diagnostic("error", dist.name, text, hint, "stale")
    names = {(group, name) for group, name, _ in wanted}
    for group, name, _ in sorted(installed):
        if (group, name) not in names:
            text = f"{group}: {name} is installed, but no longer declared in its pyproject.toml"
            yield Diagnostic("error", dist.name, text, hint, "stale")


def _folder(dist: Dist) -> Path | None:
    """Returns the source folder of an editable package."""
    import json

    try:
        facts = json.loads(dist.read("direct_url.json") or "{}")
        url = urlparse(facts["url"]) if dist.origin["editable"] else None
    except (ValueError, KeyError, TypeError):
        return None
    return Path(url2pathname(url.path)) if url is not None and url.scheme == "file" else None


def _project(dist: Dist) -> dict[str, object] | None:
    import tomllib

    folder = _folder(dist)
    try:
        text = (folder / "pyproject.toml").read_text("utf-8") if folder is not None else None
        return None if text is None else tomllib.loads(text)
    except (OSError, ValueError):
        return None


def _declared(project: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Returns the entry points that a pyproject.toml declares, by group."""
    standard = project.get("project", {}).get("entry-points")
    poetry = project.get("tool", {}).get("poetry", {}).get("plugins")
    groups = standard if standard is not None else poetry
    return groups if isinstance(groups, dict) else {}


def _check_duplicates(names: Iterable[str]) -> Iterator[Diagnostic]:
    """Yields packages that are on the path more than once."""
    found: dict[str, dict[str, str]] = {}
    for dist in everywhere():
        if dist.name in names:
            place = str(Path(dist.place or dist.version).resolve())
            found.setdefault(dist.name, {})[place] = dist.version
    for name, places in sorted(found.items()):
        if len(places) > 1:
            copies = ", ".join(f"{version} in {place}" for place, version in places.items())
            text = f"is on the path {len(places)} times, the first is used: {copies}"
            yield Diagnostic("warning", name, text, "remove all but one", "twice")


def check_imports(registry: Registry) -> Iterator[Diagnostic]:
    """Imports the components in separate processes and yields the problems."""
    by_dist: dict[str, list[Entry]] = {}
    groups = [registry.entries(kind) for kind in (None, *RESERVED)]
    for entry in itertools.chain.from_iterable(groups):
        usable = entry.status in ("ok", "conflict", "shadowed") and entry.kind != "default"
        if usable and entry.dist != LOCAL:
            by_dist.setdefault(entry.dist, []).append(entry)
    for entries in by_dist.values():
        light = probe_imports([entry.target for entry in entries], torch=False)
        heavy = [target for target, outcome in light.items() if outcome.torch]
        full = {**light, **probe_imports(heavy, torch=True)}
        for entry in entries:
            outcome = full[entry.target]
            asked = light[entry.target].torch
            if text := outcome.problem(entry):
                yield Diagnostic("error", _about(entry), text, check="import")
            elif outcome.is_config and asked:
                text = f"its config class imports torch ({asked})"
                hint = "import torch inside build(), so that listing options stays fast"
                yield Diagnostic("error", _about(entry), text, hint, "torch")
            elif outcome.is_config and outcome.seconds > _SLOW_IMPORT_S:
                text = f"its config class takes {outcome.seconds * 1e3:.0f} ms to import"
                hint = "import slow modules inside build()"
                yield Diagnostic("warning", _about(entry), text, hint, "slow")
