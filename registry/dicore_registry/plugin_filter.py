"""Which installed packages and files may take part, and which code a config may name.

Read from the environment (`DICORE_NO_PLUGINS`, `DICORE_PLUGINS_ALLOW`, `DICORE_PLUGINS_DENY`,
`DICORE_PLUGINS`, `DICORE_NAMES_ONLY`) and from `[tool.dicore]` of the project. They are for
reproducibility, applied before anything is loaded; an installed package is trusted code all the
same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from dicore_registry.entry import canonical
from dicore_registry.project import Project
from dicore_registry.requirements import dist_name

if TYPE_CHECKING:
    from pathlib import Path

_OFF: Final = frozenset({"", "0", "false", "no", "off"})


def is_on(environ: Mapping[str, str], name: str) -> bool:
    """Says whether a variable of the environment is set and not `0`, `false`, `no` or `off`."""
    return environ.get(name, "").strip().lower() not in _OFF


class Switches(NamedTuple):
    """What the user turned off, and which files he added.

    Args:
        no_plugins: Only what dicore itself ships takes part; who says so, "" for nobody.
        allow: If given, of the others only these distributions and `kind/name` take part.
        allow_by: Who says so.
        deny: Distributions, `kind/name` or `dist/name` that do not take part, and who says so.
        files: Python files whose decorators register components.
        names_only: A config chooses code by name alone, never by path.
        prefer: The distribution that a bare name means, by kind and canonical name.
    """

    no_plugins: str = ""
    allow: frozenset[str] | None = None
    allow_by: str = ""
    deny: Mapping[str, str] = MappingProxyType({})
    files: tuple[Path, ...] = ()
    names_only: bool = False
    prefer: Mapping[tuple[str, str], str] = MappingProxyType({})

    @classmethod
    def read(cls, environ: Mapping[str, str], project: Project | None = None) -> Switches:
        """Reads the environment and the project; where both name an allow-list, the former counts.

        Args:
            environ: The environment of the process.
            project: What the project in the working directory says.
        """
        project = project or Project()
        table = f"[tool.dicore] of {project.file.name if project.file else ''}"
        off = table if project.no_plugins else ""
        allow, allow_by = project.allow, f"allow in {table}"
        if said := environ.get("DICORE_PLUGINS_ALLOW", "").strip():
            allow, allow_by = tuple(said.split(",")), "DICORE_PLUGINS_ALLOW"
        denied = environ.get("DICORE_PLUGINS_DENY", "").split(",")
        deny = dict.fromkeys(_items(project.deny), f"deny in {table}")
        deny |= dict.fromkeys(_items(denied), "DICORE_PLUGINS_DENY")
        off = "DICORE_NO_PLUGINS" if is_on(environ, "DICORE_NO_PLUGINS") else off
        added = environ.get("DICORE_PLUGINS", "").split(os.pathsep)
        files = [*project.plugins, *_paths([name for name in added if name.strip()])]
        return cls(
            no_plugins=off,
            allow=None if allow is None else _items(allow),
            allow_by=allow_by,
            deny=deny,
            files=() if off else tuple(dict.fromkeys(files)),
            names_only=is_on(environ, "DICORE_NAMES_ONLY"),
            prefer=project.prefer,
        )

    def reason(self, dist: str, kind: str, name: str, *, first_party: bool) -> str:
        """Says which switch turns a component off; "" if none does."""
        if not (self.no_plugins or self.deny or self.allow is not None):
            return ""
        spellings = {dist, f"{kind}/{name}", f"{dist}/{name}"}
        denied = sorted(spellings & self.deny.keys())
        if denied:
            return f"switched off by {self.deny[denied[0]]}"
        if first_party:
            return ""
        if self.no_plugins:
            return f"switched off by {self.no_plugins}"
        if self.allow is not None and not spellings & self.allow:
            return f"not in {self.allow_by}"
        return ""


def _paths(names: list[str]) -> list[Path]:
    if not names:
        return []
    from pathlib import Path  # late: it takes its time

    return [Path(name) for name in names]


def _items(said: Iterable[str]) -> frozenset[str]:
    return frozenset(_item(item.strip()) for item in said if item.strip())


def _item(item: str) -> str:
    left, slash, name = item.partition("/")
    if not slash:
        return dist_name(left)
    # The left side is a kind (spelt with "_") or a distribution (spelt with "-").
    kind = canonical(left) if "_" in left else dist_name(left)
    return f"{kind}/{canonical(name)}"
