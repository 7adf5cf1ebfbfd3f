"""The folder of a run: `config.json run.json ckpt/ log/ video/`, and the lock of its writer.

The lock is advisory and belongs to the process: it ends with the process. The folders inside are
made when something is written to them.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal

from dicore.errors import RunLockedError, UsageError

__all__ = ["EXIST", "Exist", "RunFolder", "RunLock", "default_name", "process_info"]

_log = logging.getLogger(__name__)

Exist = Literal["new", "resume", "overwrite", "error"]
EXIST: Final[tuple[Exist, ...]] = ("new", "resume", "overwrite", "error")
"""What to do if the folder of a new run exists."""

_LOCK_FILE: Final = ".lock"
_MIN_FREE_BYTES: Final = 64 << 20


def process_info() -> dict[str, Any]:
    """Returns `pid` and `host` of this process, as `run.json` holds them."""
    return {"pid": os.getpid(), "host": platform.node()}


class RunLock:
    """Holds the lock of a folder from construction to `release`; raises `RunLockedError`."""

    def __init__(self, folder: Path) -> None:
        from filelock import FileLock, Timeout

        self._file = folder / _LOCK_FILE
        self._lock = FileLock(self._file, is_singleton=False)
        try:
            self._lock.acquire(timeout=0)
            self._ours = _identity(self._file)
        except Timeout:
            raise _locked(folder) from None
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written: {error.strerror}") from None

    def is_valid(self) -> bool:
        """Returns whether the lock file is still the one that was locked."""
        try:
            return self._lock.is_locked and _identity(self._file) == self._ours
        except OSError:
            return False

    def release(self) -> None:
        """Releases the lock; further calls do nothing."""
        if self.is_valid():
            with suppress(OSError):  # before the release: afterwards the file may be another's
                self._file.unlink()
        self._lock.release()


class RunFolder:
    """The paths inside a run's folder, and its lock; the constructor makes nothing on disk.

    `config` is the compiled config; `metadata` has command line, versions and result; `log` holds
    the event files, the text logs and `metrics`, every logged number.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.metadata = self.path / "run.json"
        self.checkpoints = self.path / "ckpt"
        self.log = self.path / "log"
        self.metrics = self.log / "metrics.jsonl"
        self.video = self.path / "video"
        self._lock: RunLock | None = None
        self._locked_config: bytes | None = None

    @classmethod
    def create(cls, path: str | Path) -> RunFolder:
        """Makes the folder, or the first of `path-1`, `path-2`, … that does not exist.

        Processes that ask for the same path at the same time get different folders.
        """
        wanted = Path(path)
        if wanted.name in ("", ".."):
            raise _not_made(wanted, "the path has no name")
        for number in count():
            folder = wanted if number == 0 else wanted.with_name(f"{wanted.name}-{number}")
            try:
                wanted.parent.mkdir(parents=True, exist_ok=True)
                folder.mkdir()
            except FileExistsError:
                if not wanted.parent.is_dir():
                    raise _not_made(folder, f"{wanted.parent} is not a folder") from None
                continue
            except (OSError, ValueError) as error:  # ValueError: the path has a null byte
                raise _not_made(folder, getattr(error, "strerror", None) or str(error)) from None
            break
        try:
            cls(folder).check_space()
        except UsageError:
            folder.rmdir()
            raise
        return cls(folder)

    def check_space(self) -> None:
        """Raises `UsageError` if less than 64 MiB are free on the disk."""
        free = shutil.disk_usage(self.path).free
        if free < _MIN_FREE_BYTES:
            raise _not_made(self.path, f"only {free >> 20} MiB are free on its disk")

    @classmethod
    def prepare(cls, path: str | Path, exist: Exist = "new") -> RunFolder:
        """Makes the folder of a new run; raises `UsageError` or `RunLockedError` if it cannot.

        Args:
            path: The folder.
            exist: What to do if it exists. `new`: append a number; `overwrite`: delete the
                contents of the run's folder; `error`: raise an error.
        """
        folder = cls(path)
        if exist == "new" or not folder.path.exists():
            return cls.create(path)
        if exist != "overwrite":
            raise UsageError(
                f"{folder} already exists",
                hint="use --exist new|resume|overwrite, or another --exp-name",
            )
        if not folder.config.is_file() and (not folder.path.is_dir() or any(folder.path.iterdir())):
            raise UsageError(
                f"{folder}: not a run folder; nothing was deleted",
                hint="choose another folder with --exp-name",
            )
        lock = RunLock(folder.path)
        try:
            for each in folder.path.iterdir():
                if each.is_dir() and not each.is_symlink():
                    shutil.rmtree(each)
                else:
                    each.unlink(missing_ok=True)
        finally:
            lock.release()
        folder.check_space()
        return folder

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Returns the folder of an existing run, or raises `UsageError`; changes nothing."""
        folder = cls(path)
        if not folder.path.is_dir():
            raise UsageError(f"{folder.path}: no such folder", hint="pass a run folder")
        if not folder.config.is_file():
            inside = sorted(str(file.parent) for file in folder.path.glob("*/config.json"))
            names = ", ".join(inside[:3]) + (", …" if len(inside) > 3 else "")
            raise UsageError(
                f"{folder.path}: not a run folder: it has no config.json",
                hint=f"runs in this folder: {names}"
                if inside
                else "name the folder that 'dicore train' printed",
            )
        return folder

    # ---- lock

    def lock(self) -> None:
        """Locks the folder until `unlock`, or raises `RunLockedError`; later calls do nothing."""
        if self._lock is None:
            self._lock = RunLock(self.path)
            self._locked_config = self.read_config()

    def unlock(self) -> None:
        """Releases the lock; does nothing if the folder is not locked."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def restore_if_removed(self) -> None:
        """Makes a locked folder again, with its config, if it was removed during the run.

        Raises `RunLockedError` if another run has taken its place.
        """
        if self._lock is None or self._lock.is_valid():
            return
        with suppress(OSError, UsageError):  # the next write raises the same error
            self.path.mkdir(parents=True, exist_ok=True)
            lock = RunLock(self.path)
            if self.read_config() not in (None, self._locked_config):
                lock.release()
                raise RunLockedError(
                    f"{self}: the folder was removed during training, and another run uses its"
                    " path now",
                    hint="do not move or delete the folder of a run that is training",
                )
            self._lock.release()
            self._lock = lock
            if self._locked_config is not None and not self.config.is_file():
                from dicore.run.atomic import write_file

                write_file(self.config, self._locked_config)
                _log.warning(
                    "%s was removed while training; it is made again, without the earlier logs and"
                    " checkpoints",
                    self,
                )

    # ---- paths

    def read_config(self) -> bytes | None:
        """Returns the content of `config.json`; None if it does not exist."""
        return self.config.read_bytes() if self.config.is_file() else None

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"


def default_name(env: str, policy: str, seed: int) -> str:
    """Returns `runs/<env>_<policy>_s<seed>`, with characters unsuited to file names replaced."""
    return f"runs/{_file_name(env)}_{_file_name(policy)}_s{seed}"


def _file_name(name: str) -> str:
    last = name.rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    return re.sub(r"[^\w.-]+", "_", last).strip("._")[:60] or "unnamed"


def _not_made(folder: Path, reason: str) -> UsageError:
    return UsageError(
        f"cannot make the run folder {folder}: {reason}",
        hint="choose another folder with --exp-name",
        context={"folder": str(folder)},
    )


def _identity(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_dev, status.st_ino


def _locked(folder: Path) -> RunLockedError:
    try:
        record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        holder = f"process {record['pid']} on {record['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        record, holder = {}, "another process"
    return RunLockedError(
        f"{folder}: {holder} is training in this folder",
        hint="wait for it, stop it, or choose another folder with --exp-name",
        context={"folder": str(folder), "pid": record.get("pid"), "host": record.get("host")},
    )
