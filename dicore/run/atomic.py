"""Atomic writes of files and folders, reads of regular files; fault-injection points for tests."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

__all__ = [
    "Stamp", "Written", "backup_path", "open_regular", "reach", "read_json", "read_regular",
    "recover", "recover_one", "remove", "replace_folder", "stamp", "sync_folder", "temporary",
    "write_file", "write_synced",
]  # fmt: skip

_handler: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Calls the handler of `dicore.testing.failpoints`, if any, with the name of a point."""
    if _handler is not None:
        _handler(point)


_CHUNK_BYTES = 16 << 20
_MOST_BYTES = 1 << 30
_MOST_JSON_BYTES = 16 << 20  # as Python objects it takes thirty times as much
_HASH_IN_THREAD_BYTES = 1 << 20


def temporary(target: Path) -> Path:
    """Returns the path at which this process prepares `target`, in the same folder."""
    return target.with_name(f".tmp-{target.name}-{os.getpid()}")


def backup_path(target: Path) -> Path:
    """Returns the path of a folder while a new one replaces it."""
    return target.with_name(f".old-{target.name}")


def write_file(target: Path, data: bytes) -> None:
    """Writes a file atomically; after an OSError the old content is unchanged."""
    unfinished = temporary(target)
    try:
        write_synced(unfinished, (data,))
        reach("rename file")
        unfinished.replace(target)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def read_regular(path: str | os.PathLike[str], *, at_most: int = _MOST_BYTES) -> bytes:
    """Returns the content of a file of a run, which may be a stranger's.

    Raises:
        OSError: it is a link, or not a file (a pipe would be waited for); or it is too large.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > at_most:
            raise OSError(errno.EFBIG, f"larger than {at_most >> 20} MiB", str(path))
        return file.read()


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a file to read; refuses links, pipes and devices."""
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, os.O_RDONLY | flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            error.strerror = "a symbolic link"
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_json(path: str | os.PathLike[str], parse: Callable[[str], object] = json.loads) -> Any:
    """Returns the content of a JSON file of a run, which may be a stranger's.

    Raises:
        OSError: see `read_regular`.
        ValueError: it is not JSON, or nested too deeply.
    """
    try:
        return parse(read_regular(path, at_most=_MOST_JSON_BYTES).decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


Stamp = tuple[int, ...]
"""Identity, size and times of a file, which change when it is written or replaced."""


class Written(NamedTuple):
    """Size, sha256 (hexadecimal) and stamp of a file that was written and synced."""

    size: int
    sha256: str
    stamp: Stamp


def write_synced(target: Path, parts: Iterable[bytes | memoryview]) -> Written:
    """Writes a new file piece by piece and syncs it; it must not exist, so no link is followed."""
    digest, size = sha256(), 0
    with ThreadPoolExecutor(1) as beside, target.open("xb", buffering=0) as file:
        for part in parts:
            view = memoryview(part)
            if size + view.nbytes < _HASH_IN_THREAD_BYTES:
                digest.update(view)
            else:  # hashing takes as long as writing: do both at the same time
                beside.submit(digest.update, view)
            while view:
                reach("write")
                written = file.write(view[:_CHUNK_BYTES])
                size += written
                view = view[written:]
        reach("fsync file")
        os.fsync(file.fileno())
        status = os.fstat(file.fileno())
    return Written(size, digest.hexdigest(), _stamp(status))


def stamp(file: Path) -> Stamp | None:
    """Returns the stamp of a file; None if it does not exist."""
    try:
        return _stamp(file.lstat())
    except OSError:
        return None


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def sync_folder(folder: Path) -> None:
    """Syncs the names in `folder` to disk; does nothing on systems that cannot."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    reach("fsync folder")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_folder(prepared: Path, target: Path) -> None:
    """Renames a prepared folder to `target`, which it replaces if it exists.

    At every moment the old folder is at `target` or `backup_path(target)`, or the new one is at
    `target`.
    """
    sync_folder(prepared)
    old = backup_path(target)
    if target.exists():
        remove(old)
        reach("displace")
        target.rename(old)
    reach("rename folder")
    prepared.rename(target)
    sync_folder(target.parent)
    reach("remove displaced")
    remove(old)


def recover_one(target: Path) -> None:
    """Moves a backup back to `target` if the replacement was not finished."""
    old = backup_path(target)
    if target.exists():
        remove(old)
    elif old.exists():
        old.rename(target)


def recover(folder: Path) -> None:
    """Finishes or undoes every `replace_folder` in `folder` that a crash interrupted."""
    for old in folder.glob(".old-*"):
        recover_one(folder / old.name.removeprefix(".old-"))
    for unfinished in folder.glob(".tmp-*"):
        remove(unfinished)


def remove(path: Path) -> None:
    """Removes a file, a link, or a folder with all that it holds."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
