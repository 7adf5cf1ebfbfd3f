"""What the registry knows about a component before importing it, and the kinds of components."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any, Final, Literal, NamedTuple, Protocol

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
"""Provider of components that a decorator registered in this process."""

NAME_FORM: Final = "a letter, then letters, digits, '_'"
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_NUMBERED: Final = re.compile(r"(.+)_v(\d+)")


def canonical(name: str) -> str:
    """Returns a name as names are compared: in lower case, with `-` replaced by `_`."""
    return name.strip().lower().replace("-", "_")


def is_name(name: str) -> bool:
    """Returns whether a canonical name is valid."""
    return _NAME.fullmatch(name) is not None


def family(name: str) -> tuple[str, int | None]:
    """Splits `noop_v3` into `noop` and 3; the number is None for a name without one."""
    match = _NUMBERED.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, None)


class Entry(NamedTuple):
    """One component as its distribution declares it.

    Args:
        kind: Its kind; for a misspelt group, the text of the group.
        name: Its canonical name.
        dist: The distribution, normalised; `local` if registered in this process.
        version: The distribution's version.
        target: `module:attr`; for a default, the name of a component.
        extras: Extras of the distribution that it needs.
        status: Whether it can be used.
        reason: Why it has this status; "" for `ok`.
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
        """`dist/name`, which is unambiguous whatever else is installed."""
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
    """An imported component.

    Args:
        name: Its name in a compiled config, which finds the same component again: the canonical
            name, `dist/name` where it was written so, or the import path.
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
        """Its origin: type, dist, version, target, source (see `source_digest`), editable."""
        return self.facts()


class Contract(Protocol):
    """Base of the protocols: a class that derives from one must implement all of its methods.

    Otherwise its instantiation raises `TypeError`, which names the missing methods.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if Protocol in cls.__bases__:
            for name, member in vars(cls).items():
                method = getattr(member, "fget", member)  # of a property
                if isinstance(method, FunctionType) and (
                    name[0] != "_" or name in ("__call__", "__len__")
                ):
                    method.__isabstractmethod__ = True  # type: ignore[attr-defined]


class Kind(NamedTuple):
    """A role that components can fill; the value of an entry of group `dicore.kind`.

    Args:
        name: The kind's name; its components are the entries of group `dicore.<name>`.
        summary: One line, for listings.
        contract: `module:Class` of the Protocol that built components of this kind satisfy.
        section: Config path of such a component (`policy.collect.collector`); "" if none.
        suite: `module:Class` of the conformance suite in `dicore.testing`; "" if there is none.
        use: A command or line of Python that uses the component `{name}`; see `usage`.
    """

    name: str
    summary: str
    contract: str = ""
    section: str = ""
    suite: str = ""
    use: str = ""

    def usage(self, words: Mapping[str, object]) -> str:
        """Returns `use` with each `{word}` replaced by its value, or by `…` if it has none."""
        return re.sub(r"\{(\w+)\}", lambda match: str(words.get(match[1], "…")), self.use)

    @property
    def group(self) -> str:
        """The entry-point group that components of this kind are declared in."""
        return f"dicore.{self.name}"


class Kinds(Mapping[str, Kind]):
    """The kinds by name; each `Kind` is imported on access."""

    def __init__(self, entries: Iterable[Entry], load: Callable[[Entry], Any]) -> None:
        self._load = load
        self._entries = {e.name: e for e in entries if e.status in ("ok", "conflict")}

    def __getitem__(self, name: str) -> Kind:
        kind = self._load(self._entries[name])
        if not isinstance(kind, Kind):
            raise PluginLoadError(f"{self._entries[name].label} is not a dicore_registry.Kind")
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries


def depth(kinds: Mapping[str, Kind], kind: str) -> tuple[bool, int, str]:
    """Sort key of kinds: by the depth of their config section; kinds without a section are last."""
    try:
        section = kinds[kind].section
    except RegistryError:
        section = ""
    return not section, section.count("."), kind


class Renamed(NamedTuple):
    """Target of a deprecated name that still works.

    Args:
        to: The new name, of the same kind; `dist/name` if it moved to another distribution.
        since: Version of the distribution that renamed it.
    """

    to: str
    since: str

    @property
    def reason(self) -> str:
        """`renamed to 'sac' in 0.3`."""
        return f"renamed to '{self.to}' in {self.since}"


class Removed(NamedTuple):
    """Target of a name that no longer works.

    Args:
        text: What to do instead.
        since: Version of the distribution that removed it.
    """

    text: str
    since: str

    @property
    def reason(self) -> str:
        """`removed in 0.5: use sac`."""
        return f"removed in {self.since}: {self.text}"


def renamed(to: str, *, since: str) -> Renamed:
    """Declares a renamed component: using its name works, but warns once."""
    return Renamed(to, since)


def removed(text: str, *, since: str) -> Removed:
    """Declares a removed component: using its name is an error with this text."""
    return Removed(text, since)
