"""From the lines of installed metadata to entries with a status; nothing is imported.

The result depends on what is installed, never on the order in which it is found.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from dicore_registry.entry import Entry, Status, canonical, family, is_name
from dicore_registry.metadata import FIRST_PARTY, Dist, Line
from dicore_registry.requirements import Requirement, dist_name, fits
from dicore_registry.switches import Switches

RESERVED: Final = ("default", "kind", "plugin")
"""Groups that hold no components: defaults of kinds, the kinds, and pluggy modules."""

_TARGET: Final = re.compile(
    r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
    r"(?:\s*:\s*(?P<attr>[^\W\d]\w*(?:\.[^\W\d]\w*)*))?"
    r"\s*(?:\[(?P<extras>[^\]]*)\])?"
)
_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")


def judge(dists: Mapping[str, Dist], switches: Switches) -> list[Entry]:
    """Returns every declared entry with its status, sorted by kind, name and distribution.

    Args:
        dists: The installed distributions by normalised name.
        switches: What the user turned off.
    """
    declared = [(dist, line) for dist in dists.values() for line in dist.lines()]
    kinds = {canonical(line.name) for _, line in declared if line.group == "dicore.kind"}
    made = (_entry(dist, line, kinds, dists, switches) for dist, line in declared)
    found = list(dict.fromkeys(entry for entry in made if entry is not None))
    found.sort(key=lambda entry: (entry.kind, entry.name, entry.dist, entry.target))
    return _settle(found)


def missing(dist: Dist, extras: Collection[str], dists: Mapping[str, Dist]) -> list[str]:
    """Names what the extras of a distribution need and is not installed, with any version met.

    Args:
        dist: The distribution that declares the extras.
        extras: Their names, normalised.
        dists: The installed distributions by normalised name.
    """
    lacks: dict[str, None] = {}
    todo = [(dist, extra) for extra in extras]
    done: set[tuple[str, str]] = set()
    while todo:
        owner, extra = todo.pop(0)
        if (owner.name, extra) in done:
            continue
        done.add((owner.name, extra))
        for wanted in owner.requirements:
            if not wanted.only_for(extra):
                continue
            have = dists.get(wanted.name)
            if have is None:
                lacks[wanted.name + wanted.specifier] = None
            elif not fits(have.version, wanted.specifier):
                lacks[f"{wanted.name}{wanted.specifier} (installed: {have.version})"] = None
            else:
                todo += [(have, inner) for inner in wanted.extras]
    return list(lacks)


def lacking(entry: Entry, dists: Mapping[str, Dist]) -> str:
    """Says what an entry's extras need and how to install it; "" if nothing is missing."""
    lacks = missing(dists[entry.dist], entry.extras, dists) if entry.extras else []
    install = f"pip install '{entry.dist}[{','.join(entry.extras)}]'"
    return f"needs {', '.join(lacks)}: {install}" if lacks else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns the known name that is closest to a misspelt one; "" if none is close."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name.lower(), sorted(known), n=1)), "")


def _entry(
    dist: Dist, line: Line, kinds: set[str], dists: Mapping[str, Dist], switches: Switches
) -> Entry | None:
    problem = ""
    kind = line.group.removeprefix("dicore.")
    if kind == line.group or not (kind in kinds or kind in RESERVED):
        problem = _unknown_kind(line.group, kinds)
        if not problem:
            return None  # a group of somebody else that happens to begin like ours
    name = canonical(line.name)
    if not is_name(name):
        name = line.name
        problem = problem or f"bad name {name!r}: a name is a letter, then letters, digits, '_'"
    target = line.value
    extras: tuple[str, ...] = ()
    if kind == "default":
        problem = problem or _bad_default(name, kinds)
    else:
        match = _TARGET.fullmatch(line.value)
        if match is not None and (match["attr"] or kind == "plugin"):
            target = ":".join(filter(None, (match["module"], match["attr"])))
            extras = tuple(dist_name(extra) for extra in _WORD.findall(match["extras"] or ""))
        else:
            problem = problem or f"target {line.value!r} is not 'module:attr'"
    entry = Entry(kind, name, dist.name, dist.version, target, extras)
    status, reason = _alone(entry, dist, problem, dists, switches)
    return entry if status == "ok" else replace(entry, status=status, reason=reason)


def _alone(
    entry: Entry, dist: Dist, problem: str, dists: Mapping[str, Dist], switches: Switches
) -> tuple[Status, str]:
    """Judges an entry as if no other package were installed."""
    off = switches.reason(entry.dist, entry.kind, entry.name, first_party=dist.first_party)
    if off:
        return "disabled", off
    if problem:
        return "broken", problem
    host = dists.get("dicore")
    wanted = _host_range(dist)
    if host is not None and wanted is not None and not fits(host.version, wanted.specifier):
        return "incompatible", f"needs dicore{wanted.specifier}, this is {host.version}"
    if entry.extras:
        unknown = [extra for extra in entry.extras if extra not in dist.extras]
        if unknown:
            return "broken", f"{dist.name} defines no extra '{unknown[0]}'"
        if lacks := lacking(entry, dists):
            return "unavailable", lacks
    return "ok", ""


def _host_range(dist: Dist) -> Requirement | None:
    """Returns the range of dicore that a distribution was made for; extras and markers count."""
    hits = (wanted for wanted in dist.requirements if wanted.name == "dicore" != dist.name)
    return next((wanted for wanted in hits if wanted.specifier and wanted.applies()), None)


def _unknown_kind(group: str, kinds: set[str]) -> str:
    """Says that a group names no kind; "" for a group that is none of ours."""
    prefix, dot, kind = group.partition(".")
    if prefix != "dicore" or not dot:
        close = re.sub(r"[-_:/.]+", ".", group.lower(), count=1).removeprefix("dicore.")
        if group.lower() != "dicore" and close not in kinds:
            return ""
        close = close if close in kinds else "<kind>"
    else:
        close = nearest(kind, {*kinds, *RESERVED})
    hint = f"; did you mean 'dicore.{close}'?" if close else ""
    return f"unknown kind '{group}'{hint}"


def _bad_default(name: str, kinds: set[str]) -> str:
    if name in kinds:
        return ""
    close = nearest(name, kinds)
    return f"default of unknown kind '{name}'" + (f"; did you mean '{close}'?" if close else "")


def _settle(entries: list[Entry]) -> list[Entry]:
    """Settles entries of one name: first-party keeps it, of others nobody gets it by chance."""
    groups: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    owned: dict[tuple[str, str], str] = {}
    for index, entry in enumerate(entries):
        if entry.status in ("ok", "unavailable", "incompatible"):
            groups[entry.kind, entry.name].append(index)
            if entry.dist in FIRST_PARTY:
                owned.setdefault((entry.kind, entry.name), entry.dist)
                owned.setdefault((entry.kind, family(entry.name)[0]), entry.dist)
    settled = list(entries)
    for key, indexes in groups.items():
        for index, (status, reason) in _rivals(entries, indexes, owned.get(key)).items():
            settled[index] = replace(entries[index], status=status, reason=reason)
    return settled


def _rivals(
    entries: list[Entry], indexes: list[int], owner: str | None
) -> dict[int, tuple[Status, str]]:
    verdicts: dict[int, tuple[Status, str]] = {}
    first: dict[str, int] = {}  # by target: one object under two names of its package is no rival
    for index in sorted(indexes, key=lambda at: (entries[at].dist not in FIRST_PARTY, at)):
        entry = entries[index]
        if entry.status == "incompatible":
            continue
        if owner is not None and entry.dist not in FIRST_PARTY:
            verdicts[index] = "shadowed", f"{owner} keeps the name; write '{entry.qualified}'"
        elif entry.target in first:
            other = entries[first[entry.target]]
            if other.dist != entry.dist:
                verdicts[index] = "shadowed", f"the same object as {other.qualified}"
        else:
            first[entry.target] = index
    if len(first) > 1:
        for index in first.values():
            verdicts[index] = _conflict(entries[index], [entries[at] for at in first.values()])
    return verdicts


def _conflict(entry: Entry, rivals: list[Entry]) -> tuple[Status, str]:
    if sum(rival.dist == entry.dist for rival in rivals) > 1:
        return "broken", f"{entry.dist} declares '{entry.name}' more than once"
    others = sorted(rival.dist for rival in rivals if rival.dist != entry.dist)
    return "conflict", f"also provided by {', '.join(others)}; write '{entry.qualified}'"
