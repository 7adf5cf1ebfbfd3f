"""Finds run folders, those that are damaged or only begun too."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from dicore.data.json_codec import loads
from dicore.errors import UsageError
from dicore.run.atomic import read_json
from dicore_tools.reports.curves import find_runs

__all__ = ["check_places", "find_folders"]

_OF_RUNS: Final = frozenset({"ckpt", "log", "video"})
"""Folders of a run, which are not searched."""
_WITHOUT_RUNS: Final = frozenset({"__pycache__", "node_modules"})
"""Folders with many files, which are not searched."""
_MOST_RUNS: Final = 5_000


def check_places(places: Sequence[str | Path]) -> None:
    """Raises `UsageError` if a place is neither a folder nor a summary file of several seeds."""
    for place in map(Path, places):
        if not place.is_dir():
            find_runs([place])


def find_folders(places: Sequence[str | Path]) -> dict[Path, str]:
    """Returns the folders of runs, and the name of each: its path below the place.

    If several have the same name, they are named by their whole path. Links are not followed, so
    that nothing outside the places is found.

    Args:
        places: Folders, which are searched recursively, or summary files of several seeds. What no
            longer exists is left out.
    """
    found: dict[Path, str] = {}
    for place in map(Path, places):
        below = f"{place.resolve().name}/" if len(places) > 1 else ""
        for folder in _folders(place):
            name = os.path.relpath(folder, place.resolve()) if place.is_dir() else folder.name
            found.setdefault(folder, f"{below}{name}" if name != "." else folder.name)
            if len(found) == _MOST_RUNS:
                break
    counts = Counter(found.values())
    return {folder: name if counts[name] == 1 else str(folder) for folder, name in found.items()}


def _folders(place: Path) -> Iterator[Path]:
    if place.is_file():
        try:
            yield from (run.path.resolve() for run in find_runs([place]))
        except UsageError:  # it is being written
            return
    for folder, below, files in os.walk(place.resolve()):
        inside = {"config.json", "run.json"} & set(files)
        left_out = _WITHOUT_RUNS
        if len(inside) == 2 or (inside and _is_ours(Path(folder) / inside.pop())):
            yield Path(folder)
            left_out |= _OF_RUNS
        below[:] = sorted(name for name in below if name[0] != "." and name not in left_out)


def _is_ours(file: Path) -> bool:
    """Returns whether a file that is there alone is of a run: packages have `config.json` too."""
    try:
        content = read_json(file, loads)
    except (OSError, ValueError):
        return file.name == "run.json"
    return isinstance(content, Mapping) and ("dicore" in content or "argv" in content)
