"""One pass over the installed distributions: what each says of itself, read when asked for."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dicore_registry.requirements import Requirement, dist_name

FIRST_PARTY = frozenset({"dicore", "dicore-plugins", "dicore-contrib-envs"})


@dataclass(frozen=True, slots=True)
class Line:
    """One line of `entry_points.txt` as it stands there."""

    group: str
    name: str
    value: str


class Dist:
    """One installed distribution; each metadata file is read once, when first asked for.

    Args:
        source: What `importlib.metadata` found.
    """

    def __init__(self, source: importlib.metadata.Distribution) -> None:
        self._source = source
        folder = getattr(source, "_path", None)
        self._folder = folder if isinstance(folder, Path) else None

    @cached_property
    def name(self) -> str:
        """The normalised name; of a `.dist-info` folder its name says it without a read."""
        if self._folder is not None and self._folder.suffix == ".dist-info":
            return dist_name(self._folder.stem.partition("-")[0])
        return dist_name((self._headers.get("name") or [""])[0])

    @cached_property
    def version(self) -> str:
        """The version, as declared."""
        return (self._headers.get("version") or [""])[0]

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """Every requirement that can be read, those of extras among them."""
        lines = self._headers.get("requires-dist", [])
        return tuple(found for found in map(Requirement.parse, lines) if found is not None)

    @cached_property
    def extras(self) -> frozenset[str]:
        """The extras it defines, normalised."""
        return frozenset(dist_name(extra) for extra in self._headers.get("provides-extra", []))

    @cached_property
    def origin(self) -> dict[str, Any]:
        """What `direct_url.json` tells: `editable`, and `commit` of an install from git."""
        import json

        try:
            facts = json.loads(self.read("direct_url.json") or "{}")
        except ValueError:
            facts = None
        facts = facts if isinstance(facts, dict) else {}
        origin: dict[str, Any] = {"editable": bool(facts.get("dir_info", {}).get("editable"))}
        if commit := facts.get("vcs_info", {}).get("commit_id"):
            origin["commit"] = commit
        return origin

    @property
    def first_party(self) -> bool:
        """Whether dicore itself ships it; such a one keeps its names."""
        return self.name in FIRST_PARTY

    def lines(self) -> list[Line]:
        """Returns the lines of `entry_points.txt` whose group begins with `dicore`."""
        text = self.read("entry_points.txt")
        found: list[Line] = []
        if "dicore" not in text.lower():
            return found
        group = ""
        for raw in text.splitlines():
            line = raw.strip()
            if line.startswith("[") and line.endswith("]"):
                group = line[1:-1].strip()
            elif line and line[0] not in "#;" and group.lower().startswith("dicore"):
                name, _, value = line.partition("=")
                found.append(Line(group, name.strip(), value.strip()))
        return found

    def read(self, file: str) -> str:
        """Returns the text of a metadata file; "" if there is none or it cannot be read."""
        if self._folder is None:
            return self._source.read_text(file) or ""
        try:
            # A plain open: `Distribution.read_text` costs three times as much per file.
            with open(f"{self._folder}/{file}", encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
                return stream.read()
        except OSError:
            return ""

    @cached_property
    def _headers(self) -> dict[str, list[str]]:
        headers: dict[str, list[str]] = {}
        text = self.read("METADATA") or self.read("PKG-INFO")
        for line in text.partition("\n\n")[0].splitlines():
            if line[:1].isspace():
                continue  # the rest of a folded header, which none of those read here is
            name, _, value = line.partition(":")
            headers.setdefault(name.strip().lower(), []).append(value.strip())
        return headers


def installed(
    sources: Iterable[importlib.metadata.Distribution] | None = None,
) -> dict[str, Dist]:
    """Returns the distributions by normalised name; of two on the path the first counts.

    Args:
        sources: What to look at; None for everything that Python finds.
    """
    found: dict[str, Dist] = {}
    for source in importlib.metadata.distributions() if sources is None else sources:
        dist = Dist(source)
        if dist.name:
            found.setdefault(dist.name, dist)
    return found
