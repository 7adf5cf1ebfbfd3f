"""Remembers where targets are defined, so that `dicore list` reads no source twice."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_FORM: Final = 1
"""Raised when rows mean something else."""

Row = tuple[list[list[str | int]], list[str | int] | None]
"""The files that were read, each with its time of change and size, and what was found."""


def cache_file() -> str:
    """Returns the path of the index, a file of the Python environment."""
    return f"{sys.prefix}/share/dicore/places.json"


class PlaceIndex:
    """What is known of targets from earlier processes.

    A row holds while the files that were read for it have the same time of change and size.
    An environment that is not writable has no index.

    Args:
        path: The file; what cannot be read or written is found anew each time.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamps: dict[str, list[str | int]] = {}
        self._changed = False
        self._rows: dict[str, Row] = {}
        with suppress(OSError, ValueError, TypeError, KeyError), open(path, "rb") as file:  # noqa: PTH123
            found = json.load(file)
            if found["form"] == _FORM and isinstance(found["rows"], dict):
                self._rows = found["rows"]

    def get(self, target: str, file: str) -> list[str | int] | None:
        """Returns what is known of a target that is looked for in a file; None: nothing."""
        with suppress(TypeError, ValueError, IndexError, OSError):
            stamps, place = self._rows.get(target, ([], None))
            if stamps[0][0] == file and all(each == self._stamp(str(each[0])) for each in stamps):
                return place
        return None

    def put(self, target: str, files: Sequence[str], place: Sequence[str | int]) -> None:
        """Notes what was found for a target, and the files that were read for it."""
        self._rows[target] = [self._stamp(file) for file in files], list(place)
        self._changed = True

    def save(self) -> None:
        """Writes the index, if there is something new."""
        if not self._changed:
            return
        unfinished = f"{self._path}.{os.getpid()}"
        with suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
            with open(unfinished, "x", encoding="utf-8") as file:  # noqa: PTH123
                json.dump({"form": _FORM, "rows": self._rows}, file)
            os.replace(unfinished, self._path)  # noqa: PTH105
        self._changed = False

    def _stamp(self, file: str) -> list[str | int]:
        if file not in self._stamps:
            found = os.stat(file)  # noqa: PTH116
            self._stamps[file] = [file, found.st_mtime_ns, found.st_size]
        return self._stamps[file]
