"""Files and folders of the processes of a training: for their user only."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["opener", "private_folder"]


def private_folder(path: Path) -> None:
    """Makes a folder that only this user can enter; one that is there stays as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """Opens a file for `open`; one that is made is for this user only, and links are not followed.

    Raises:
        OSError: the file cannot be opened, or is a link.
    """
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
