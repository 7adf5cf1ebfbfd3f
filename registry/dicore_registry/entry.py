"""What the registry knows of a component before anything of it is imported."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

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
