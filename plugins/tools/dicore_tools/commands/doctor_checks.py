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
_SLOW: Final = 0.2
"""Seconds that the module of a config class may take to import."""


def check_statuses(registry: Registry) -> Iterator[Diagnostic]:
    """Tells every entry that cannot be used by its name, and what the project says wrongly."""
    for text in registry.project.problems:
        yield Diagnostic("error", "", text, check="project")
    for (kind, name), dist in registry.switches.prefer.items():
        if not any(e.dist == dist and e.name == name for e in registry.entries(kind)):
            text = f"the project prefers '{dist}/{name}', which nothing installed provides"
            yield Diagnostic("error", f"{kind}/{name}", text, f"pip install {dist}", "prefer")
    for entry in [*registry.entries(), *_reserved(registry)]:
        level = _LEVELS.get(entry.status)
        if level is not None:
            text = f"{entry.status}: {entry.reason}"
            yield Diagnostic(level, _about(entry), text, check=entry.status)


def _reserved(registry: Registry) -> list[Entry]:
    """Returns public names, kinds, defaults and plugins that `entries` does not list."""
    found = [e for kind in ("api", "kind", "default", "plugin") for e in registry.entries(kind)]
    return [entry for entry in found if entry.status not in ("broken", "shadowed")]


def _about(entry: Entry) -> str:
    return f"{entry.kind}/{entry.name} ({entry.provider})"


def check_metadata(registry: Registry) -> Iterator[Diagnostic]:
    """Tells what the metadata of the packages lacks, or says that is no longer so."""
    for dist in registry.distributions.values():
        if dist.fault:
            yield Diagnostic("warning", dist.name, dist.fault, "install it anew", "meta")
    yield from _switched(registry)
    concerned = {entry.dist for entry in registry.entries()} - {LOCAL}
    for name in sorted(concerned):
        dist = registry.distributions[name]
        if not any(wanted.name == "dicore" for wanted in dist.requirements) and name != "dicore":
            text = "does not say for which versions of dicore it is made"
            hint = 'add a range to its dependencies: "dicore>=0.1,<0.2"'
            yield Diagnostic("warning", name, text, hint, "host-range")
        if not dist.version:
            yield Diagnostic(
                "error", name, "its metadata names no version", "install it anew", "meta"
            )
        yield from _stale(dist)
    yield from _twice(concerned)


def _switched(registry: Registry) -> Iterator[Diagnostic]:
    """Tells what a switch names and nothing installed is called: misspelt, it does nothing."""
    switches = registry.switches
    said = [*switches.deny.items(), *((name, switches.allow_by) for name in switches.allow or ())]
    entries = registry.entries()
    known = {name for e in entries for name in (e.dist, f"{e.kind}/{e.name}", e.qualified)}
    for name, by in said:
        if name not in known and name not in registry.distributions:
            close = nearest(name, known)
            hint = f"did you mean '{close}'?" if close else ""
            yield Diagnostic("warning", by, f"nothing installed is called '{name}'", hint, "switch")


def _stale(dist: Dist) -> Iterator[Diagnostic]:
    """Compares what an editable package declares now with what its installation wrote down."""
    project = _project(dist)
    if project is None:
        return
    wanted = {
        (group, name, str(value))
        for group, entries in _declared(project).items()
        if group.startswith("dicore")
        for name, value in entries.items()
    }
    held = {(line.group, line.name, line.value) for line in dist.lines}
    hint = f"install it anew: pip install -e {_folder(dist)}"
    for group, name, _ in sorted({each for each in wanted if each not in held}):
        text = f"its pyproject.toml declares {group}: {name}, its installation does not"
        yield Diagnostic("error", dist.name, text, hint, "stale")
    names = {(group, name) for group, name, _ in wanted}
    for group, name, _ in sorted(held):
        if (group, name) not in names:
            text = f"its installation declares {group}: {name}, its pyproject.toml no longer does"
            yield Diagnostic("error", dist.name, text, hint, "stale")


def _folder(dist: Dist) -> Path | None:
    """Returns the folder that an editable package is installed from."""
    import json

    try:
        facts = json.loads(dist.read("direct_url.json") or "{}")
        url = urlparse(facts["url"]) if dist.origin["editable"] else None
    except (ValueError, KeyError, TypeError):
        return None
    return Path(url2pathname(url.path)) if url is not None and url.scheme == "file" else None


def _project(dist: Dist) -> dict[str, Any] | None:
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
    found = standard if standard is not None else poetry
    return found if isinstance(found, dict) else {}


def _twice(names: Iterable[str]) -> Iterator[Diagnostic]:
    """Tells packages of ours that stand on the path more than once in different versions."""
    found: dict[str, dict[str, str]] = {}
    for dist in everywhere():
        if dist.name in names:
            place = str(Path(dist.place or dist.version).resolve())
            found.setdefault(dist.name, {})[place] = dist.version
    for name, places in sorted(found.items()):
        if len(places) > 1:
            each = ", ".join(f"{version} in {place}" for place, version in places.items())
            text = f"is on the path {len(places)} times, the first counts: {each}"
            yield Diagnostic("warning", name, text, "remove all but one", "twice")


def check_imports(registry: Registry) -> Iterator[Diagnostic]:
    """Imports every component that can be, in processes of its own, and tells what went wrong."""
    by_dist: dict[str, list[Entry]] = {}
    groups = [registry.entries(kind) for kind in (None, "api", "kind", "plugin")]
    for entry in itertools.chain.from_iterable(groups):
        if entry.status in ("ok", "conflict", "shadowed") and entry.dist != LOCAL:
            by_dist.setdefault(entry.dist, []).append(entry)
    for entries in by_dist.values():
        light = probe_imports([entry.target for entry in entries], torch=False)
        heavy = [target for target, outcome in light.items() if outcome.torch]
        full = {**light, **probe_imports(heavy, torch=True)}
        for entry in entries:
            outcome = full[entry.target]
            asked = light[entry.target].torch
            if outcome.error:
                text = f"failed to import {entry.module}: {outcome.error}"
                yield Diagnostic("error", _about(entry), text, check="import")
            elif outcome.is_config and asked:
                text = f"its config class imports torch ({asked})"
                hint = "import it inside of build(): options are listed without it"
                yield Diagnostic("error", _about(entry), text, hint, "torch")
            elif outcome.is_config and outcome.seconds > _SLOW:
                text = f"its config class takes {outcome.seconds * 1e3:.0f} ms to import"
                hint = "import what is slow inside of build()"
                yield Diagnostic("warning", _about(entry), text, hint, "slow")
