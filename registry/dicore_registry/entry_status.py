"""Turns entry-point lines into entries with a status, and ranks entries of one name.

Nothing is imported. The result does not depend on the order in which packages are found.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from operator import attrgetter
from typing import Final

from dicore_registry.entry import LOCAL, NAME_FORM, Entry, Status, canonical, family, is_name
from dicore_registry.explain import nearest, provider
from dicore_registry.metadata import FIRST_PARTY, Dist, Line
from dicore_registry.plugin_filter import Switches
from dicore_registry.requirements import dist_name, fits

RESERVED: Final = ("api", "config_format", "default", "kind", "plugin", "run_file")
"""Groups without components: public names of dicore, config formats and run files, kinds and their
defaults, pluggy modules."""

_TARGET: Final = re.compile(
    r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
    r"(?:\s*:\s*(?P<attr>[^\W\d]\w*(?:\.[^\W\d]\w*)*))?"
    r"\s*(?:\[(?P<extras>[^\]]*)\])?"
)
_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")


def judge(
    dists: Mapping[str, Dist], switches: Switches, only: tuple[str, str] | None = None
) -> list[Entry]:
    """Returns every declared entry with its status, sorted by kind, name and distribution.

    Args:
        dists: The installed distributions by normalised name.
        switches: What the user disabled.
        only: A known kind and a prefix of names; skips all other entries, which is faster.
    """
    declared = {dist.name: lines for dist in dists.values() if (lines := dist.lines)}
    all_lines = (line for lines in declared.values() for line in lines)
    kinds = {canonical(line.name) for line in all_lines if line.group == "dicore.kind"}
    if only is not None:
        group, start = f"dicore.{only[0]}", only[1]
        declared = {
            name: matches
            for name, lines in declared.items()
            if (matches := [x for x in lines if x.group == group and _begins(x.name, start)])
        }
    found: dict[Entry, None] = {}  # removes repeated lines
    for name, lines in declared.items():
        misfit = _misfit(dists[name], dists.get("dicore"))
        for line in lines:
            entry, problem = _read(dists[name], line, kinds)
            if entry is not None:
                status, reason = _alone(entry, misfit, problem, dists, switches)
                found[entry._replace(status=status, reason=reason) if reason else entry] = None
    order = attrgetter("kind", "name", "dist", "target")
    return _settle(sorted(found, key=order), switches.prefer)


def _begins(name: str, start: str) -> bool:
    return canonical(name).startswith(start)


def _read(dist: Dist, line: Line, kinds: set[str]) -> tuple[Entry | None, str]:
    """Returns the entry that a line declares, if its group is one of dicore, and its problem."""
    problem = ""
    kind = line.group.removeprefix("dicore.")
    if kind == line.group or not (kind in kinds or kind in RESERVED):
        problem = _unknown_kind(line.group, kinds)
        if not problem:
            return None, ""  # a group of another project with a similar name
    name = canonical(line.name)
    if not is_name(name):
        name = line.name
        problem = problem or f"invalid name {name!r}: expected {NAME_FORM}"
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
    return Entry(kind, name, dist.name, dist.version, target, extras), problem


def _alone(
    entry: Entry, misfit: str, problem: str, dists: Mapping[str, Dist], switches: Switches
) -> tuple[Status, str]:
    """Returns the status of an entry, regardless of entries with the same name."""
    dist = dists[entry.dist]
    off = switches.reason(dist.name, entry.kind, entry.name, first_party=dist.first_party)
    unknown = next((extra for extra in entry.extras if extra not in dist.extras), "")
    verdict: tuple[Status, str] = ("ok", "")
    if off:
        verdict = "disabled", off
    elif misfit:
        verdict = "incompatible", misfit
    elif problem:
        verdict = "broken", problem
    elif unknown:
        verdict = "broken", f"{dist.name} defines no extra '{unknown}'"
    elif entry.extras and (lacks := lacking(entry, dists)):
        verdict = "unavailable", lacks
    return verdict


def _misfit(dist: Dist, host: Dist | None) -> str:
    """Returns why a distribution does not fit the installed dicore; "" if it does."""
    if host is None or dist is host:
        return ""
    for wanted in dist.requirements:
        outside = wanted.name == "dicore" and not fits(host.version, wanted.specifier)
        if outside and wanted.applies():
            return f"needs dicore{wanted.specifier} (installed: {host.version})"
    return ""


def _unknown_kind(group: str, kinds: set[str]) -> str:
    """Returns the problem of a group that names no kind; "" for a group of another project."""
    prefix, dot, kind = group.partition(".")
    if prefix != "dicore" or not dot:
        close = re.sub(r"[-_:/.]+", ".", group.lower(), count=1).removeprefix("dicore.")
        if group.lower() != "dicore" and close not in kinds:
            return ""
        close = close if close in kinds else "<kind>"
    else:
        if missing := provider(kind):
            return f"unknown kind '{group}'; {missing}"
        close = nearest(kind, {*kinds, *RESERVED})
    hint = f"; did you mean 'dicore.{close}'?" if close else ""
    return f"unknown kind '{group}'{hint}"


def _bad_default(name: str, kinds: set[str]) -> str:
    if name in kinds:
        return ""
    close = nearest(name, kinds)
    return f"default of unknown kind '{name}'" + (f"; did you mean '{close}'?" if close else "")


def _settle(entries: list[Entry], prefer: Mapping[tuple[str, str], str]) -> list[Entry]:
    """Ranks entries of one name: preferred by the project, then first-party; else a conflict."""
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
        kind, name = key
        if len(indexes) == 1 and (key not in owned or entries[indexes[0]].dist in FIRST_PARTY):
            continue
        wanted = prefer.get(key) or prefer.get((kind, family(name)[0]), "")
        chosen = _preferred(entries, indexes, wanted)
        verdicts = chosen or _rivals(entries, indexes, owned.get(key))
        for index, (status, reason) in verdicts.items():
            settled[index] = entries[index]._replace(status=status, reason=reason)
    return settled


def _preferred(
    entries: list[Entry], indexes: list[int], dist: str
) -> dict[int, tuple[Status, str]]:
    """Shadows all entries but the one that the project prefers, if it exists."""
    usable = [index for index in indexes if entries[index].status != "incompatible"]
    if len([index for index in usable if entries[index].dist == dist]) != 1:
        return {}
    reason = f"the project prefers '{dist}'; write "
    others = (index for index in usable if entries[index].dist != dist)
    return {index: ("shadowed", f"{reason}'{entries[index].qualified}'") for index in others}


def _rivals(
    entries: list[Entry], indexes: list[int], owner: str | None
) -> dict[int, tuple[Status, str]]:
    verdicts: dict[int, tuple[Status, str]] = {}
    first: dict[str, int] = {}  # by target: the same object in two packages is no conflict
    targets = {(entries[at].dist, entries[at].target) for at in indexes}
    count = Counter(dist for dist, _ in targets)
    for index in sorted(indexes, key=lambda at: (entries[at].dist not in FIRST_PARTY, at)):
        entry = entries[index]
        if entry.status == "incompatible":
            continue
        if count[entry.dist] > 1:  # ambiguous within its package; other packages are unaffected
            verdicts[index] = "broken", f"{entry.dist} declares '{entry.name}' more than once"
            continue
        if owner is not None and entry.dist not in FIRST_PARTY:
            verdicts[index] = "shadowed", f"{owner} has priority; write '{entry.qualified}'"
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
    others = sorted(rival.dist for rival in rivals if rival.dist != entry.dist)
    return "conflict", f"also provided by {', '.join(others)}; write '{entry.qualified}'"


def missing(dist: Dist, extras: Collection[str], dists: Mapping[str, Dist]) -> list[str]:
    """Returns the requirements of a distribution's extras that are not installed.

    Args:
        dist: The distribution that defines the extras.
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
    """Returns what an entry's extras lack and how to install it; "" if nothing is missing."""
    lacks = missing(dists[entry.dist], entry.extras, dists) if entry.extras else []
    install = f"pip install '{entry.dist}[{','.join(entry.extras)}]'"
    return f"needs {', '.join(lacks)}: {install}" if lacks else ""


def candidates(matches: list[Entry]) -> list[Entry]:
    """Returns the candidates for an unqualified name: local, else first-party, else unshadowed."""
    for owners in ({LOCAL}, FIRST_PARTY):
        owned = [e for e in matches if e.dist in owners and e.status not in ("broken", "disabled")]
        if owned:
            return owned
    return [entry for entry in matches if entry.status != "shadowed"] or matches


def newest(entries: list[Entry], key: str) -> Entry:
    """Returns the entry with exactly this name, else the highest of its numbered versions."""
    exact = [entry for entry in entries if entry.name == key]
    return exact[0] if exact else max(entries, key=lambda entry: family(entry.name)[1] or 0)
