"""`dicore list`: installed components, read from metadata without importing them."""

from __future__ import annotations

import contextlib
import gc
import re
import sys
from collections.abc import Sequence
from typing import Any

import click

import dicore_registry
from dicore.console import plural, write_table
from dicore.errors import UsageError
from dicore_registry import LOCAL, STATUSES, Entry, Registry, explain
from dicore_registry.entry_status import RESERVED
from dicore_registry.public_names import public_name
from dicore_registry.queries import provided

_PROBLEMS = frozenset({"unavailable", "incompatible", "conflict", "broken"})
_HEADER = ("KIND", "NAME", "STATUS", "PACKAGE", "VERSION", "SUMMARY")
_EPILOG = """\b
Examples:
  dicore list                      all components
  dicore list policy --json        all policies, as JSON
  dicore list --status broken      broken components and the reasons
  dicore list --package acme-rl    all that one package declares
  dicore list env --match '^lunar'
"""


@click.command(name="list", epilog=_EPILOG)
@click.argument("kind", required=False)
@click.option("--status", type=click.Choice(STATUSES), help="Only components with this status.")
@click.option("--package", "--dist", "dist", metavar="NAME", help="Only those of this package.")
@click.option(
    "--match", metavar="RE", help="Only those whose NAME, KIND/NAME or PACKAGE/NAME matches."
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
        entries = provided(registry, dist) if dist is not None else registry.entries(kind)
        known = [*registry.kinds(), *RESERVED]
    if kind is not None:
        kind = dicore_registry.canonical(kind)
        if kind not in known:
            raise explain.unknown_kind(kind, known, "")
        entries = [entry for entry in entries if entry.kind == kind]
    if pattern is not None:
        entries = [
            entry
            for entry in entries
            if any(map(pattern.search, (entry.name, f"{entry.kind}/{entry.name}", entry.qualified)))
        ]
    if load:
        entries = _loaded(entries)
    with registry.remembering():
        entries = [registry.judged(entry) for entry in entries]
    if status is not None:
        entries = [entry for entry in entries if entry.status == status]
    if as_json:
        import json

        # One component per line: an indent would be written in Python, a seventh of the time.
        lines = ",\n".join(json.dumps(entry_facts(registry, entry)) for entry in entries)
        sys.stdout.write(f"[\n{lines}\n]\n" if lines else "[]\n")
    else:
        _write_table(registry, entries, kind, dist)
    gc.freeze()  # the process ends soon: skip the garbage collection


def _pattern(match: str) -> re.Pattern[str]:
    try:
        return re.compile(match, re.IGNORECASE)
    except re.error as error:
        raise UsageError(f"--match: {match!r} is not a regular expression: {error}") from error


def _loaded(entries: Sequence[Entry]) -> list[Entry]:
    """Imports components in a separate process and marks those that fail as broken."""
    probe_imports = public_name("probe_imports", "--load")
    usable = [entry for entry in entries if entry.status in ("ok", "conflict", "shadowed")]
    tested = {entry for entry in usable if entry.kind != "default" and entry.dist != LOCAL}
    outcomes = probe_imports([entry.target for entry in entries if entry in tested], torch=True)
    problems = {entry: outcomes[entry.target].problem(entry) for entry in tested}
    return [
        entry._replace(status="broken", reason=f"{entry.label} {problem}")
        if (problem := problems.get(entry))
        else entry
        for entry in entries
    ]


def entry_facts(registry: Registry, entry: Entry) -> dict[str, Any]:
    """Returns what is known of a component without importing it, by the keys of `--json`."""
    keys = ("kind", "name", "qualified", "status", "reason", "dist", "version")
    facts = {key: getattr(entry, key) for key in keys}
    return {**facts, "summary": registry.summary(entry), "target": entry.target}


def _write_table(
    registry: Registry, entries: Sequence[Entry], kind: str | None, dist: str | None
) -> None:
    if entries:
        facts = [
            (e.kind, e.name, e.status, e.dist, e.version, registry.summary(e)) for e in entries
        ]
        write_table(_HEADER, facts)
    problems = [entry for entry in entries if entry.status in _PROBLEMS]
    more = " (dicore doctor)" if problems else ""
    lines = [f"{plural(len(entries), 'component')}, {plural(len(problems), 'problem')}{more}"]
    for entry in problems:
        at = f"{entry.kind}/{entry.name} ({entry.provider})"
        lines.append(f"{at}: {entry.status}: {entry.reason}")
    faults = {each.name: each.fault for each in registry.distributions.values() if each.fault}
    shown = faults if dist is None else {dicore_registry.dist_name(dist)} & faults.keys()
    lines += [f"{name}: {faults[name]}" for name in shown]
    if not (dist or registry.entries(kind or "policy")):
        lines.append(explain.absent(kind or "policy"))
    sys.stdout.write(("\n" if entries else "") + "\n".join(lines) + "\n")
