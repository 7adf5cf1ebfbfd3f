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
"""File of a copy: a digest by which a training in the copy, or another file, is noticed."""


def copy_run(source: Path, target: Path) -> None:
    """Copies a run folder; an earlier copy is replaced if nobody trained it or added files.

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
            f"{target} already exists, and is not what save() left there: another folder, or the"
            " copy was trained further or has more files",
            hint="name a folder that does not exist yet",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as place:
        made = Path(place) / "made"
        shutil.copytree(source, made)
        (made / _MARK).write_text(_digest(made), encoding="utf-8")
        before = Path(place) / "before"
        if target.exists():
            target.replace(before)
        try:
            made.replace(target)
        except OSError:
            if before.exists():
                before.replace(target)
            raise


def _is_untouched(folder: Path) -> bool:
    try:
        return (folder / _MARK).read_text(encoding="utf-8") == _digest(folder)
    except (OSError, ValueError):
        return False


def _digest(folder: Path) -> str:
    """Returns a digest of `run.json` and of the names of all files but the mark."""
    names = sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())
    text = "\n".join(name for name in names if name != _MARK).encode("utf-8", "surrogateescape")
    return hashlib.sha256(RunFolder(folder).metadata.read_bytes() + text).hexdigest()
