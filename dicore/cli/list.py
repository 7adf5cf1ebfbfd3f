"""`dicore list`: installed components, read from metadata without importing them."""

from __future__ import annotations

import contextlib
import gc
import re
import sys
from collections.abc import Sequence

import click

import dicore_registry
from dicore.console import plural, write_table
from dicore.errors import UsageError
from dicore_registry import LOCAL, STATUSES, Entry, Registry, explain, nearest
from dicore_registry.public_names import public_name

_PROBLEMS = frozenset({"unavailable", "incompatible", "conflict", "broken"})
_HEADER = ("KIND", "NAME", "STATUS", "DIST", "VERSION", "SUMMARY")
_EPILOG = """\b
Examples:
  dicore list                      all components
  dicore list policy --json        all policies, as JSON
  dicore list --status broken      broken components and the reasons
  dicore list --dist acme-rl       components of one package
  dicore list env --match '^lunar'
"""


@click.command(name="list", epilog=_EPILOG)
@click.argument("kind", required=False)
@click.option("--status", type=click.Choice(STATUSES), help="Only components with this status.")
@click.option("--dist", metavar="NAME", help="Only components of this package.")
@click.option(
    "--match", metavar="RE", help="Only components whose NAME, KIND/NAME or DIST/NAME matches."
)
@click.option("--load", is_flag=True, help="Import the components to find broken ones.")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
def command(
    kind: str | None,
    status: str | None,
    dist: str | None,
    match: str | None,
    load: bool,
    as_json: bool,
) -> None:
    """Lists installed components with status and providing package."""
    registry = dicore_registry.default()
    pattern = None if match is None else _pattern(match)
    with contextlib.redirect_stdout(sys.stderr):  # files of the project may print
        entries = _entries(registry, kind)
        if dist is not None:
            dist = known_dist(registry, dist)
    if dist is not None:
        entries = [entry for entry in entries if entry.dist == dist]
    if pattern is not None:
        entries = [entry for entry in entries if _matches(pattern, entry)]
    if load:
        entries = _loaded(entries)
    if status in (None, "deprecated", "ok", "conflict", "shadowed"):
        entries = [registry.judged(entry) for entry in entries]
    if status is not None:
        entries = [entry for entry in entries if entry.status == status]
    rows = [(entry, registry.summary(entry)) for entry in entries]
    if as_json:
        _write_json(rows)
    else:
        _write_table(registry, rows, kind)
    gc.freeze()  # the process ends soon: skip the garbage collection


def _entries(registry: Registry, kind: str | None) -> list[Entry]:
    if kind is None:
        return registry.entries()
    known = [*registry.kinds(), "kind", "default", "plugin"]
    if dicore_registry.canonical(kind) not in known:
        raise explain.unknown_kind(kind, known, "")
    return registry.entries(kind)


def known_dist(registry: Registry, dist: str) -> str:
    """Returns the normalised name of an installed package that provides components.

    Raises:
        UsageError: there is no such package.
    """
    name = dicore_registry.dist_name(dist)
    known = {entry.dist for entry in registry.entries()}
    if name in known:
        return name
    close = nearest(name, known)
    hint = f"did you mean '{close}'?" if close else f"packages: {', '.join(sorted(known))}"
    raise UsageError(f"no installed package '{dist}' provides components; {hint}")


def _pattern(match: str) -> re.Pattern[str]:
    try:
        return re.compile(match, re.IGNORECASE)
    except re.error as error:
        raise UsageError(f"--match: {match!r} is not a regular expression: {error}") from error


def _matches(pattern: re.Pattern[str], entry: Entry) -> bool:
    names = (entry.name, f"{entry.kind}/{entry.name}", entry.qualified)
    return any(pattern.search(name) for name in names)


def _loaded(entries: Sequence[Entry]) -> list[Entry]:
    """Imports components in a separate process and marks those that fail as broken."""
    probe_imports = public_name("probe_imports", "--load")
    tested = {
        entry
        for entry in entries
        if entry.status in ("ok", "conflict", "shadowed")
        and entry.kind != "default"
        and entry.dist != LOCAL
    }
    outcomes = probe_imports([entry.target for entry in entries if entry in tested], torch=True)
    return [
        entry._replace(
            status="broken",
            reason=f"{entry.label} failed to import {entry.module}: {outcomes[entry.target].error}",
        )
        if entry in tested and outcomes[entry.target].error
        else entry
        for entry in entries
    ]


def _write_json(rows: Sequence[tuple[Entry, str]]) -> None:
    import json

    items = [
        {
            "kind": entry.kind,
            "name": entry.name,
            "qualified": entry.qualified,
            "status": entry.status,
            "reason": entry.reason,
            "dist": entry.dist,
            "version": entry.version,
            "summary": summary,
            "target": entry.target,
        }
        for entry, summary in rows
    ]
    sys.stdout.write(json.dumps(items, indent=1) + "\n")


def _write_table(registry: Registry, rows: Sequence[tuple[Entry, str]], kind: str | None) -> None:
    if rows:
        cells = [(e.kind, e.name, e.status, e.dist, e.version, summary) for e, summary in rows]
        write_table(_HEADER, cells)
    entries = [entry for entry, _ in rows]
    problems = [entry for entry in entries if entry.status in _PROBLEMS]
    more = " (dicore doctor)" if problems else ""
    lines = [f"{plural(len(entries), 'component')}, {plural(len(problems), 'problem')}{more}"]
    for entry in problems:
        at = f"{entry.kind}/{entry.name} ({entry.provider})"
        lines.append(f"{at}: {entry.status}: {entry.reason}")
    dists = registry.distributions.values()
    lines += [f"{dist.name}: skipped: {dist.fault}" for dist in dists if dist.fault]
    if not registry.entries(kind or "policy"):
        lines.append(explain.absent(kind or "policy"))
    sys.stdout.write(("\n" if entries else "") + "\n".join(lines) + "\n")
