"""What the registry knows of a component before anything of it is imported."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from dicore_registry.errors import PluginLoadError, RegistryError

Status = Literal[
    "ok",
    "unavailable",
    "incompatible",
    "conflict",
    "shadowed",
    "disabled",
    "deprecated",
    "broken",
]
STATUSES: Final[tuple[Status, ...]] = (
    "ok",
    "unavailable",
    "incompatible",
    "conflict",
    "shadowed",
    "disabled",
    "deprecated",
    "broken",
)
LOCAL: Final = "local"
"""Provider of what a decorator registered in this process."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_NUMBERED: Final = re.compile(r"(.+)_v(\d+)")


def canonical(name: str) -> str:
    """Returns the spelling that names are compared by: lower case, `-` read as `_`."""
    return name.strip().lower().replace("-", "_")


def is_name(name: str) -> bool:
    """Says whether a canonical name is allowed."""
    return _NAME.fullmatch(name) is not None


def family(name: str) -> tuple[str, int | None]:
    """Splits `noop_v3` into `noop` and 3; a name without a number has None."""
    match = _NUMBERED.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, None)


class Entry(NamedTuple):
    """One component as its distribution declares it.

    Args:
        kind: What it is; for a misspelt group, what stands there.
        name: Its canonical name.
        dist: The distribution, normalised; `local` for one registered in this process.
        version: The distribution's version.
        target: `module:attr`; for a default, the bare name of a component.
        extras: Extras of the distribution that it needs.
        status: Whether it can be used, and why not.
        reason: What the status rests on; "" for `ok`.
        file: `file:line` where a decorator registered it; "" otherwise.
    """

    kind: str
    name: str
    dist: str
    version: str
    target: str
    extras: tuple[str, ...] = ()
    status: Status = "ok"
    reason: str = ""
    file: str = ""

    @property
    def qualified(self) -> str:
        """The name that stays unambiguous whatever else is installed."""
        return f"{self.dist}/{self.name}"

    @property
    def module(self) -> str:
        """The module part of the target."""
        return self.target.partition(":")[0]

    @property
    def attr(self) -> str:
        """The attribute part of the target; "" for a whole module."""
        return self.target.partition(":")[2]

    @property
    def label(self) -> str:
        """`policy 'dqn' (dicore-plugins 0.1.0)`, for messages."""
        return f"{self.kind} '{self.name}' ({self.provider})"

    @property
    def provider(self) -> str:
        """Distribution and version, or the file of a local one."""
        if self.dist == LOCAL:
            return f"local, {self.file}" if self.file else LOCAL
        return f"{self.dist} {self.version}".rstrip()


class Resolved(NamedTuple):
    """A component found and imported, ready to be configured.

    Args:
        name: What to write into a compiled config so that the same component is found again: the
            exact canonical name, `dist/name` where that was asked for, or the import path.
        target: The registered object.
        entry: The declaration; None for an import path or a file.
        facts: Makes the provenance record.
    """

    name: str
    target: Any
    entry: Entry | None
    facts: Callable[[], dict[str, Any]]

    @property
    def provenance(self) -> dict[str, Any]:
        """Who supplied it: type, dist, version, target, source (see `source_digest`), editable."""
        return self.facts()


class Kind(NamedTuple):
    """A role that components can fill; the value of an entry of group `dicore.kind`.

    Args:
        name: The kind's name; its components are the entries of group `dicore.<name>`.
        summary: One line for people.
        contract: `module:Class` of the Protocol that components of this kind satisfy once built.
        section: Where a config asks for one (`policy.collect.collector`); "" if nowhere.
        suite: `module:Class` of the conformance suite in `dicore.testing`; "" if there is none.
    """

    name: str
    summary: str
    contract: str = ""
    section: str = ""
    suite: str = ""

    @property
    def group(self) -> str:
        """The entry-point group that components of this kind are declared in."""
        return f"dicore.{self.name}"


class Kinds(Mapping[str, Kind]):
    """The kinds by name, each imported when it is looked at."""

    def __init__(self, entries: Iterable[Entry], load: Callable[[Entry], Any]) -> None:
        self._load = load
        self._entries = {e.name: e for e in entries if e.status in ("ok", "conflict")}

    def __getitem__(self, name: str) -> Kind:
        kind = self._load(self._entries[name])
        if not isinstance(kind, Kind):
            raise PluginLoadError(f"{self._entries[name].label} is no dicore_registry.Kind")
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries


def depth(kinds: Mapping[str, Kind], kind: str) -> tuple[bool, int, str]:
    """Sorts kinds by how deep in a config their section is; those without a section come last."""
    try:
        section = kinds[kind].section
    except RegistryError:
        section = ""
    return not section, section.count("."), kind


class Renamed(NamedTuple):
    """Target of a retired name that still works.

    Args:
        to: The name that replaces it, of the same kind.
        since: Version of the distribution that renamed it.
    """

    to: str
    since: str


class Removed(NamedTuple):
    """Target of a name that works no more.

    Args:
        text: What to do instead.
        since: Version of the distribution that removed it.
    """

    text: str
    since: str


def renamed(to: str, *, since: str) -> Renamed:
    """Declares that a component goes by another name: it works and warns once."""
    return Renamed(to, since)


def removed(text: str, *, since: str) -> Removed:
    """Declares that a component is gone: asking for it is an error with this text."""
    return Removed(text, since)
