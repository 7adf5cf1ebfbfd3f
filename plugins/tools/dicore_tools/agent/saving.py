"""Copies of runs that agents save."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from dicore.errors import UsageError
from dicore.run.folder import RunFolder

__all__ = ["copy_run"]

_MARK = "saved.sha256"
"""File of a copy: the digest of its `run.json`, by which a training in the copy is noticed."""


def copy_run(source: Path, target: Path) -> None:
    """Copies a run folder; an earlier copy that nobody trained further is replaced.

    Args:
        source: The run folder.
        target: Where; below a folder of which the missing parts are made.

    Raises:
        UsageError: the target exists and is no such copy.
    """
    if target.exists() and target.resolve() == source.resolve():
        return
    if target.exists() and not _is_untouched(target):
        raise UsageError(
            f"{target} already exists, and is no copy that save() made, or was trained further",
            hint="name a folder that does not exist yet",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as place:
        made = Path(place) / "made"
        shutil.copytree(source, made)
        (made / _MARK).write_text(_digest(made), encoding="utf-8")
        if target.exists():
            target.replace(Path(place) / "before")
        made.replace(target)


def _is_untouched(folder: Path) -> bool:
    try:
        return (folder / _MARK).read_text(encoding="utf-8") == _digest(folder)
    except (OSError, ValueError):
        return False


def _digest(folder: Path) -> str:
    return hashlib.sha256(RunFolder(folder).metadata.read_bytes()).hexdigest()
