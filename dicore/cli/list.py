"""`dicore list`: everything installed, from metadata alone; no component is imported."""

from __future__ import annotations

import contextlib
import gc
import re
import sys
from collections.abc import Sequence

import click

import dicore_registry
from dicore.console import write_table
from dicore.errors import UsageError
from dicore_registry import LOCAL, STATUSES, Entry, Registry, explain, nearest

_PROBLEMS = frozenset({"unavailable", "incompatible", "conflict", "broken"})
_HEADER = ("KIND", "NAME", "STATUS", "DIST", "VERSION", "SUMMARY")
_EPILOG = """\b
Examples:
  dicore list                      everything
  dicore list policy --json        the policies, for programs
  dicore list --status broken      what does not work, and why
  dicore list --dist acme-rl       what one package brings
  dicore list env --match '^lunar'
"""


@click.command(name="list", epilog=_EPILOG)
@click.argument("kind", required=False)
@click.option("--status", type=click.Choice(STATUSES), help="Only of this status.")
@click.option("--dist", help="Only what this distribution brings.")
@click.option("--match", metavar="RE", help="Only where NAME, KIND/NAME or DIST/NAME matches.")
@click.option("--load", is_flag=True, help="Import each one, to find those that break.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON alone.")
def command(
    kind: str | None,
    status: str | None,
    dist: str | None,
    match: str | None,
    load: bool,
    as_json: bool,
) -> None:
    """Lists what is installed, whether it can be used, and who brings it."""
    registry = dicore_registry.default()
    pattern = None if match is None else _pattern(match)
    with contextlib.redirect_stdout(sys.stderr):  # what a file of the project prints is no answer
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
    gc.freeze()  # the process ends here: searching it for cycles would take its time


def _entries(registry: Registry, kind: str | None) -> list[Entry]:
    if kind is None:
        return registry.entries()
    known = [*registry.kinds(), "kind", "default", "plugin"]
    if dicore_registry.canonical(kind) not in known:
        raise explain.unknown_kind(kind, known, "")
    return registry.entries(kind)


def known_dist(registry: Registry, dist: str) -> str:
    """Returns the normalised name of an installed distribution that brings components.

    Raises:
        UsageError: there is none of that name.
    """
    name = dicore_registry.dist_name(dist)
    known = {entry.dist for entry in registry.entries()}
    if name in known:
        return name
    close = nearest(name, known)
    hint = f"did you mean '{close}'?" if close else f"packages: {', '.join(sorted(known))}"
    raise UsageError(f"--dist: no installed package '{dist}' brings components; {hint}")


def _pattern(match: str) -> re.Pattern[str]:
    try:
        return re.compile(match, re.IGNORECASE)
    except re.error as error:
        raise UsageError(f"--match: {match!r} is no regular expression: {error}") from error


def _matches(wanted: re.Pattern[str], entry: Entry) -> bool:
    names = (entry.name, f"{entry.kind}/{entry.name}", entry.qualified)
    return any(wanted.search(name) for name in names)


def _loaded(entries: Sequence[Entry]) -> list[Entry]:
    """Imports them in processes of their own: what one prints, or ends, is not this listing."""
    from dicore import probe_imports

    asked = {
        entry
        for entry in entries
        if entry.status in ("ok", "conflict", "shadowed")
        and entry.kind != "default"
        and entry.dist != LOCAL
    }
    outcomes = probe_imports([entry.target for entry in entries if entry in asked], torch=True)
    return [
        entry._replace(
            status="broken",
            reason=f"{entry.label} failed to import {entry.module}: {outcomes[entry.target].error}",
        )
        if entry in asked and outcomes[entry.target].error
        else entry
        for entry in entries
    ]


def _row(entry: Entry, summary: str) -> tuple[str, ...]:
    return (entry.kind, entry.name, entry.status, entry.dist, entry.version, summary)


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
        write_table(_HEADER, [_row(entry, summary) for entry, summary in rows])
    entries = [entry for entry, _ in rows]
    problems = [entry for entry in entries if entry.status in _PROBLEMS]
    more = " (dicore doctor)" if problems else ""
    lines = [f"{_count(len(entries), 'component')}, {_count(len(problems), 'problem')}{more}"]
    for entry in problems:
        at = f"{entry.kind}/{entry.name} ({entry.provider})"
        lines.append(f"{at}: {entry.status}: {entry.reason}")
    dists = registry.distributions.values()
    lines += [f"{dist.name}: skipped: {dist.fault}" for dist in dists if dist.fault]
    bare = kind or "policy"
    if not registry.entries(bare):
        lines.append(explain.absent(bare))
    sys.stdout.write(("\n" if entries else "") + "\n".join(lines) + "\n")


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
