"""Tags of runs, which users of the board add and remove.

They are kept in `.dicore-board.json` beside the run folders, not inside: a run that is being
trained, resumed, replaced or certified owns all of its folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from threading import Lock
from typing import Final

from dicore.errors import UsageError
from dicore.run.atomic import read_json, write_file

__all__ = ["FILE", "Tags"]

FILE: Final = ".dicore-board.json"
_MOST_TAGS: Final = 20
_LONGEST: Final = 40

_OfRuns = dict[str, list[str]]


class Tags:
    """Reads and changes the tags of runs in any folders."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[tuple[int, ...], _OfRuns]] = {}
        self._lock = Lock()

    def of(self, run: Path) -> list[str]:
        """Returns the tags of a run, sorted.

        Args:
            run: Its folder.
        """
        with self._lock:
            return self._known(run.parent).get(run.name, [])

    def change(self, run: Path, *, add: Collection[str] = (), remove: Collection[str] = ()) -> None:
        """Adds and removes tags of a run.

        Raises:
            UsageError: a tag is empty or too long, they are too many, or the file is not writable.
        """
        wanted = [" ".join(tag.split()) for tag in add]
        for tag in wanted:
            if not tag or len(tag) > _LONGEST or not tag.isprintable():
                raise UsageError(f"not a tag: 1 to {_LONGEST} printable characters are one")
        with self._lock:
            self._read.pop(run.parent, None)  # another board may have written it
            known = dict(self._known(run.parent))
            tags = sorted({*known.get(run.name, []), *wanted} - set(remove))
            if len(tags) > _MOST_TAGS:
                raise UsageError(f"{run.name} has {_MOST_TAGS} tags already", hint="remove some")
            known[run.name] = tags
            self._write(run.parent, {name: own for name, own in sorted(known.items()) if own})

    def _write(self, folder: Path, tags: _OfRuns) -> None:
        text = json.dumps({"dicore_board": 1, "tags": tags}, indent=1)
        try:
            write_file(folder / FILE, text.encode("ascii") + b"\n")
        except OSError as error:
            what = error.strerror or str(error)
            raise UsageError(f"{folder / FILE}: tags cannot be written: {what}") from error

    def _known(self, folder: Path) -> _OfRuns:
        """Returns the tags of the runs in a folder; those of a damaged file are none."""
        file = folder / FILE
        try:
            status = os.lstat(file)
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
            read = self._read.get(folder)
            if read is not None and read[0] == stamp:
                return read[1]
            found = _checked(read_json(file))
        except (OSError, ValueError):
            return {}
        self._read[folder] = stamp, found
        return found


def _checked(content: object) -> _OfRuns:
    """Returns the tags in a file, which may be a stranger's."""
    tags = content.get("tags") if isinstance(content, Mapping) else None
    found = {}
    for name, own in tags.items() if isinstance(tags, Mapping) else ():
        kept = [tag for tag in own if isinstance(tag, str)] if isinstance(own, list) else []
        found[name] = sorted({tag[:_LONGEST] for tag in kept})[:_MOST_TAGS]
    return found
