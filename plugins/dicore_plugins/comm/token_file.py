"""The token of a training in a private file, by which a resumed coordinator reaches the others."""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from dicore_plugins.comm.channel import token_of

__all__ = ["forget_token", "kept_token"]

_LOG = logging.getLogger("dicore.comm")
_NAME: Final = "token"


def kept_token(folder: Path) -> str:
    """Returns the token given, else that of the earlier part of a training, else a new one.

    Args:
        folder: Folder of the parameters, in which it is kept for the next part.
    """
    file = folder / _NAME
    token = token_of() or _read(file) or secrets.token_hex(16)
    forget_token(folder)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(token)
    except OSError as error:
        forget_token(folder)  # a part of it would be wrong
        _LOG.warning("%s cannot be written: %s; a resumed run will have another", file, error)
    return token


def forget_token(folder: Path) -> None:
    """Removes the file."""
    with suppress(OSError):
        (folder / _NAME).unlink()


def _read(file: Path) -> str:
    """Returns what the file says; "": it is not there, or others could have written it."""
    with suppress(OSError, UnicodeDecodeError):
        found = file.lstat()
        foreign = hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o077)
        if not foreign:
            return file.read_text(encoding="utf-8").strip()
    return ""
