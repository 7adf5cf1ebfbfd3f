"""The folder of a file buffer: writes, reads and deletes the bodies of samples."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, Literal

from dicore.errors import ClosedError, ReplayCapacityError, UsageError
from dicore.run.folder import RunLock
from dicore_plugins.buffers.file.records import (
    Place,
    is_ours,
    packed,
    read_record,
    scan,
    write_head,
)
from dicore_plugins.buffers.memory import Fact, verdict

__all__ = ["BodyFolder", "Existing"]

Existing = Literal["refuse", "load", "delete"]

_NAME = re.compile(r"body_(\d{12})\.records")
_NEW = re.compile(r"new_[0-9a-f]{32}\.records")


class BodyFolder:
    """Files of bodies in one folder, which is locked; a file goes when all its bodies have left.

    Only files that it wrote or took over are deleted, by name and first bytes.

    Args:
        path: The folder; None: a temporary one.
        per_file: Bodies per file.
        existing: What to do with files of an earlier buffer.
        background: Delete files in a thread.

    Attributes:
        path: The folder.
        dropped: Number of files of an earlier buffer whose last record was cut off.

    Raises:
        UsageError: the folder has files of an earlier buffer (`refuse`), or cannot be written.
        RunLockedError: another process uses the folder.
    """

    def __init__(
        self, path: str | Path | None, per_file: int, existing: Existing, *, background: bool
    ) -> None:
        self._temporary = path is None
        self._stays = existing == "load" and path is not None
        self._per_file = per_file
        self.path = Path(tempfile.mkdtemp(prefix="dicore_buffer_") if path is None else path)
        self._made = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be made: {error.strerror}") from error
        lock = self.path / ".lock"
        if lock.is_symlink() or (lock.exists() and lock.stat().st_size):
            raise UsageError(
                f"{lock}: not the lock of a buffer", hint="choose another folder for the bodies"
            )
        self._lock: RunLock | None = RunLock(self.path)
        self.dropped = 0
        self._live: dict[int, int] = {}
        self._next = 0
        self._open: IO[bytes] | None = None
        self._in_open = 0
        self.found: list[tuple[int, Place]] = []
        self._queue: SimpleQueue[Path | None] = SimpleQueue()
        self._remover: Thread | None = None
        try:
            self._take_over(existing)
        except BaseException:
            self._lock.release()
            raise
        if background:
            self._remover = Thread(target=_remove, args=(self._queue,), daemon=True)
            self._remover.start()

    def _take_over(self, existing: Existing) -> None:
        """Handles the files of an earlier buffer."""
        old = sorted(each for each in self.path.iterdir() if _NAME.fullmatch(each.name))
        old = [each for each in old if is_ours(each)]
        if old and existing == "refuse":
            raise UsageError(
                f"{self.path}: has {len(old)} files of an earlier buffer",
                hint="choose another folder, or existing=load or existing=delete",
            )
        for file in old:
            number = _number(file)
            self._next = max(self._next, number + 1)
            places = list(scan(file, number)) if existing == "load" else []
            end = sum(place.size for _, place in places) + 8
            self.dropped += existing == "load" and file.stat().st_size > end
            if places:
                self._live[number] = len(places)
                self.found += places
            else:
                file.unlink()

    # ---- bodies

    def write(self, body: Mapping[str, Any], number: int) -> Place:
        """Writes a body; returns where it is.

        Raises:
            ReplayCapacityError: the disk is full or the folder is gone; nothing is stored.
            CheckpointWriteError: the body has a value of a type that cannot be stored.
            ClosedError: the folder is closed.
        """
        if self._lock is None:
            raise ClosedError("the file buffer is closed")
        record = packed(body, number)
        path = self._file(self._next)
        try:
            if self._open is None:
                self._open = path.open("xb")
                self._in_open = 0
                write_head(self._open)
            offset = self._open.tell()
            self._open.write(record)
            self._open.flush()
        except OSError as error:
            self._give_up(path)
            raise ReplayCapacityError(
                f"{path}: cannot be written: {error.strerror}",
                hint="free disk space, reduce replay_buffer_size, or choose another folder",
            ) from error
        place = Place(self._next, offset, len(record))
        self._live[place.file] = self._live.get(place.file, 0) + 1
        self._in_open += 1
        if self._in_open >= self._per_file:
            self._finish()
        return place

    def _give_up(self, path: Path) -> None:
        """Closes a file that could not be written; whole records in it stay."""
        file, self._open = self._open, None
        with suppress(OSError):
            if file is not None:
                file.close()
        if not self._live.get(self._next):
            with suppress(OSError):
                path.unlink()
        self._next += 1

    def _finish(self) -> None:
        """Closes the file that is being written; deletes it if all its bodies have left."""
        if self._open is not None:
            self._open.close()
            self._open = None
            number, self._next = self._next, self._next + 1
            if not self._live[number]:
                self._unlink(number)

    def read(self, place: Place) -> dict[str, Any]:
        """Returns a body."""
        return read_record(self._file(place.file), place)

    def release(self, place: Place) -> None:
        """Notes that a body has left; the file goes with its last body."""
        self._live[place.file] -= 1
        if not self._live[place.file] and not (self._open and place.file == self._next):
            self._unlink(place.file)

    def _unlink(self, number: int) -> None:
        del self._live[number]
        if self._remover is None:
            self._file(number).unlink(missing_ok=True)
        else:
            self._queue.put(self._file(number))

    def take(self, file_path: str | Path) -> Path:
        """Returns the path of a body that `adopt` can take over.

        Raises:
            UsageError: the path is not of a file of records in this folder.
        """
        path = Path(str(file_path))
        inside = path.absolute().parent.resolve() == self.path.resolve()
        if not inside or not is_ours(path):
            raise UsageError(
                f"file_path {str(file_path)!r} is not a body in {self.path}",
                hint="write bodies by write_body(folder, data), which returns the meta data",
            )
        if _NAME.fullmatch(path.name):
            raise UsageError(
                f"file_path {str(file_path)!r} is a body that the buffer has already",
                hint="push the sample itself (load(meta)) to store it once more",
            )
        return path

    def peek(self, path: Path) -> dict[str, Any]:
        """Returns the body in a file.

        Raises:
            UsageError: the file has no whole body, or several.
        """
        found = list(scan(path, 0))
        if len(found) != 1:
            raise UsageError(f"{path}: expected one whole body, found {len(found)}")
        return read_record(path, found[0][1])

    def adopt(self, path: Path) -> Place:
        """Takes over a file with one body under a name of this folder."""
        self._finish()
        number, self._next = self._next, self._next + 1
        ((_, place),) = scan(path, number)
        path.rename(self._file(number))
        self._live[number] = 1
        return place

    def file_of(self, place: Place) -> Path:
        """Returns the path of the file of a body."""
        return self._file(place.file)

    def files(self) -> Iterator[Path]:
        """Yields the files that have bodies."""
        return (self._file(number) for number in self._live)

    def check_valid(self, places: Iterable[Place]) -> tuple[bool, str]:
        """Returns whether the files have the bodies at these places and no others, or why not."""
        return verdict(self._facts([*places]))

    def _facts(self, places: list[Place]) -> Iterator[Fact]:
        counts = Counter(place.file for place in places)
        for number in counts | self._live:
            have, live = counts[number], self._live.get(number, 0)
            unfinished = self._open is not None and number == self._next
            right = have == live and (have or unfinished)
            yield right, f"{self._file(number)}: {live} bodies are counted, {have} are in use"
        for place in places:
            file = self._file(place.file)
            size = file.stat().st_size if file.is_file() else 0
            end = place.offset + place.size
            yield size >= end, f"{file}: {size} bytes, the bodies in it need {end}"

    def _file(self, number: int) -> Path:
        return self.path / f"body_{number:012d}.records"

    def close(self) -> None:
        """Deletes all files, and the folder if it is empty and was made here.

        With `existing=load` the files stay, so that the next buffer can load them.
        """
        if self._lock is None:
            return
        if self._open is not None:
            with suppress(OSError):
                self._open.close()
            self._open = None
        if self._remover is not None:
            self._queue.put(None)
            self._remover.join()
        for file in () if self._stays else self.files():
            file.unlink(missing_ok=True)
        self._live.clear()
        rest = [*self.path.iterdir()] if self.path.is_dir() else []
        for file in rest:  # written for this buffer, and not pushed
            if _NEW.fullmatch(file.name) and is_ours(file):
                file.unlink(missing_ok=True)
        self._lock.release()
        self._lock = None
        if self._temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        elif self._made:
            with suppress(OSError):  # others have files in it
                self.path.rmdir()


def _number(file: Path) -> int:
    match = _NAME.fullmatch(file.name)
    assert match is not None
    return int(match[1])


def _remove(queue: SimpleQueue[Path | None]) -> None:
    """Deletes the files that are put into the queue, until None."""
    while (path := queue.get()) is not None:
        with suppress(OSError):
            path.unlink(missing_ok=True)
