"""What the extras of a distribution need, and whether it is installed; nothing is imported."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dicore_registry.entry import Entry
from dicore_registry.metadata import Dist
from dicore_registry.requirements import fits


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
