"""Files and folders that appear whole or not at all, also when the machine stops half-way."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

__all__ = [
    "Stamp",
    "Written",
    "armed",
    "backup_path",
    "reach",
    "recover",
    "recover_one",
    "replace_folder",
    "stamp",
    "sync_folder",
    "temporary",
    "write_file",
    "write_synced",
]

_handler: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Tells the armed handler, if any, that execution is at `point`."""
    if _handler is not None:
        _handler(point)


@contextmanager
def armed(handler: Callable[[str], None]) -> Iterator[None]:
    """Calls `handler` with the name of each point reached in the block; it may raise or kill."""
    global _handler  # noqa: PLW0603 - the handler concerns the whole process
    before, _handler = _handler, handler
    try:
        yield
    finally:
        _handler = before


_CHUNK = 16 << 20
_WORTH_A_THREAD = 1 << 20


def temporary(target: Path) -> Path:
    """Returns the name under which this process prepares `target`, in the same folder."""
    return target.with_name(f".tmp-{target.name}-{os.getpid()}")


def backup_path(target: Path) -> Path:
    """Returns the name that a folder bears for the moment in which a new one takes its place."""
    return target.with_name(f".old-{target.name}")


def write_file(target: Path, data: bytes) -> None:
    """Writes a file so that readers see the old content or the new, never a part.

    Raises:
        OSError: writing failed; the old content stands.
    """
    unfinished = temporary(target)
    try:
        write_synced(unfinished, (data,))
        reach("rename file")
        unfinished.replace(target)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


Stamp = tuple[int, ...]
"""What changes when a file is written to or replaced."""


class Written(NamedTuple):
    """A file that the disk has.

    Args:
        size: In bytes.
        sha256: In hexadecimal digits.
        stamp: As `stamp` returns it for as long as nobody writes to the file.
    """

    size: int
    sha256: str
    stamp: Stamp


def write_synced(target: Path, parts: Iterable[bytes | memoryview[Any]]) -> Written:
    """Writes a new file and waits until the disk has it.

    Args:
        target: The file; it must not exist, so that no link is followed.
        parts: Its content, piece by piece; memory views are of bytes.
    """
    digest, size = sha256(), 0
    with ThreadPoolExecutor(1) as beside, target.open("xb", buffering=0) as file:
        for part in parts:
            view = memoryview(part)
            if size + view.nbytes < _WORTH_A_THREAD:
                digest.update(view)
            else:  # takes as long as the disk does, so the two work side by side
                beside.submit(digest.update, view)
            while view:
                reach("write")
                written = file.write(view[:_CHUNK])
                size += written
                view = view[written:]
        reach("fsync file")
        os.fsync(file.fileno())
        status = os.fstat(file.fileno())
    return Written(size, digest.hexdigest(), _stamp(status))


def stamp(file: Path) -> Stamp | None:
    """Returns the stamp of a file; None where there is none."""
    try:
        return _stamp(file.lstat())
    except OSError:
        return None


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def sync_folder(folder: Path) -> None:
    """Waits until the disk has the names in `folder`; nothing where the system cannot do it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    reach("fsync folder")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_folder(prepared: Path, target: Path) -> None:
    """Gives a prepared folder its name, in place of an existing one if there is one.

    At every moment the old folder stands under `target` or `backup_path(target)`, or the new one
    stands under `target`.
    """
    sync_folder(prepared)
    old = backup_path(target)
    if target.exists():
        _remove(old)
        reach("displace")
        target.rename(old)
    reach("rename folder")
    prepared.rename(target)
    sync_folder(target.parent)
    reach("remove displaced")
    _remove(old)


def recover_one(target: Path) -> None:
    """Gives a displaced folder its name back if nothing took its place."""
    old = backup_path(target)
    if target.exists():
        _remove(old)
    elif old.exists():
        old.rename(target)


def recover(folder: Path) -> None:
    """Finishes or undoes what a process that died inside `replace_folder` left in `folder`."""
    for old in folder.glob(".old-*"):
        recover_one(folder / old.name.removeprefix(".old-"))
    for unfinished in folder.glob(".tmp-*"):
        _remove(unfinished)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
