"""Whom of several packages a bare name means, and which of several numbers."""

from __future__ import annotations

from dicore_registry.entry import LOCAL, Entry, family
from dicore_registry.metadata import FIRST_PARTY


def keepers(matches: list[Entry]) -> list[Entry]:
    """Returns who may answer to a bare name: local, else dicore's own, else all not shadowed."""
    for owners in ({LOCAL}, FIRST_PARTY):
        kept = [e for e in matches if e.dist in owners and e.status not in ("broken", "disabled")]
        if kept:
            return kept
    return [entry for entry in matches if entry.status != "shadowed"] or matches


def newest(entries: list[Entry], key: str) -> Entry:
    """Returns the entry that a name means: itself, else the highest of its numbered versions."""
    exact = [entry for entry in entries if entry.name == key]
    return exact[0] if exact else max(entries, key=lambda entry: family(entry.name)[1] or 0)
