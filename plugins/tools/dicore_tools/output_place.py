"""Checks where an output goes, before the work whose result it takes."""

from __future__ import annotations

import tempfile
from os import PathLike
from pathlib import Path
from typing import Final

from dicore.errors import UsageError

__all__ = ["check_place"]

_ROOM: Final = bytes(1 << 16)
"""Written on trial: a full disk accepts new files, and refuses their content."""
_DEVICES: Final = Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd")
"""Folders of devices, some of which are links to what a process has open."""


def check_place(
    out: str | PathLike[str],
    *,
    option: str = "",
    folder: bool = False,
    devices: bool = False,
    hint: str = "",
) -> None:
    """Raises an error if an output could not be written now; nothing is left behind.

    Args:
        out: The file or folder; folders above it may be missing.
        option: The option that names it, which begins the message.
        folder: The output is a folder.
        devices: It is opened and written, so it may be a device, such as /dev/stdout, or a pipe. A
            new file in its place would replace it for every program.
        hint: What to do instead.

    Raises:
        UsageError: it cannot be written: a folder above it is a file, or nothing may be written or
            fits there, or the output is a folder instead of a file, or a file instead of a folder.
    """
    target = Path(out)
    try:
        why = _problem(target, folder, devices)
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        text = f"cannot write {target}: {why}"
        hint = hint or f"name another {'folder' if folder else 'file'}"
        raise UsageError(f"{option}: {text}" if option else text, hint=hint)


def _problem(target: Path, folder: bool, devices: bool) -> str:
    """Returns why nothing can be written to a file or folder; "" if it can.

    Raises:
        OSError: the system says why.
    """
    exists = target.exists()
    if exists and target.is_dir() is not folder:
        if not folder:
            return "it is a folder"
        if target.is_file():
            return "it is a file"
    if exists and not folder:
        if not target.is_file() or target.absolute().parent in _DEVICES:
            return "" if devices else "it is a device or a pipe"
        with target.open("r+b"):  # the file itself may be protected
            pass
    places = (
        (target, *target.absolute().parents) if exists and folder else target.absolute().parents
    )
    above = next(each for each in places if each.exists())
    if not above.is_dir():
        return f"{above} is not a folder"
    with tempfile.TemporaryFile(dir=above) as file:  # permissions alone do not say it
        file.write(_ROOM)
        file.flush()
    return ""
