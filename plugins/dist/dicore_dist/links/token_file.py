"""The token of a training in a private file, by which a resumed coordinator reaches the others."""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from dicore.run.atomic import read_regular
from dicore_dist.links.channel import TOKEN_VARIABLE, token_of

__all__ = ["forget_token", "kept_token"]

_LOG = logging.getLogger("dicore.comm")
_NAME: Final = "token"
_MARK: Final = "token.mark"


def kept_token(folder: Path) -> str:
    """Returns the token given, else that of the earlier part of a training, else a new one.

    That of a folder which was copied or unpacked is not used: who made it knows it.

    Args:
        folder: Folder of the parameters, in which it is kept for the next part.
    """
    file = folder / _NAME
    token = token_of() or _read(folder) or secrets.token_hex(16)
    forget_token(folder)
    try:
        _write(file, token)
        _write(folder / _MARK, _mark(file))
    except OSError as error:
        forget_token(folder)  # a part of it would be wrong
        _LOG.warning("%s cannot be written: %s; a resumed run will have another", file, error)
    return token


def _write(file: Path, text: str) -> None:
    """Writes a new file, for its user only."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)


def forget_token(folder: Path) -> None:
    """Removes the files."""
    for name in (_NAME, _MARK):
        with suppress(OSError):
            (folder / name).unlink()


def _read(folder: Path) -> str:
    """Returns what the file says; "": it is not there, or others could have written it."""
    file = folder / _NAME
    with suppress(OSError, ValueError):
        found = file.lstat()
        foreign = hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o077)
        if not foreign and read_regular(folder / _MARK).decode() == _mark(file):
            return read_regular(file).decode().strip()
        text = "%s is of another place and not used; if it is yours, set %s to what it says"
        _LOG.warning(text, file, TOKEN_VARIABLE)
    return ""


def _mark(file: Path) -> str:
    """Returns what no copy of a file has, and nobody knows before it is made."""
    found = file.lstat()
    return f"{found.st_ino} {found.st_ctime_ns}"
