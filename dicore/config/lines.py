"""Where in a config file each key stands: path → line, for messages and for `origin`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dicore.config.aliases import ALIASES

__all__ = ["Lines"]

_HOPS = 3


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of one file.

    Args:
        of: Line of each path as the file writes it; items of lists as `a.b[0]`.
    """

    of: Mapping[str, int] = field(default_factory=dict)

    def find(self, path: str) -> int | None:
        """Returns the line that gives the value at a path of the config, None if none does.

        The file may use a short form of the path. A value that code computes has no line of its
        own; then the nearest section around it that has one is told.
        """
        for written in _spellings(path):
            if written in self.of:
                return self.of[written]
        above = _above(path)
        return self.find(above) if above else None


def _spellings(path: str) -> Iterator[str]:
    """Yields a path and its short forms, the nearest first."""
    yield path
    now = [path]
    for _ in range(_HOPS):
        now = [short for each in now for short in _shorter(each)]
        yield from now


def _shorter(path: str) -> Iterator[str]:
    for alias, full in ALIASES.items():
        if path == full or path.startswith((f"{full}.", f"{full}[")):
            yield alias + path[len(full) :]


def _above(path: str) -> str:
    cut = max(path.rfind("."), path.rfind("["))
    return path[:cut] if cut > 0 else ""
