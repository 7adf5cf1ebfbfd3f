"""The folder of a run: `config.json run.json ckpt/ log/ video/`, and the lock of its writer.

The lock is advisory and belongs to the process: it ends with the process. The folders inside are
made when something is written to them.
"""

from __future__ import annotations

import logging
import os
import platform
import re
import shutil
import stat
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final, Literal

from dicore.errors import RunLockedError, UsageError
from dicore.run.atomic import read_json, read_regular, remove, write_file

__all__ = ["EXIST", "Exist", "RunFolder", "RunLock", "default_name", "process_info"]

_log = logging.getLogger(__name__)

Exist = Literal["new", "resume", "overwrite", "error"]
EXIST: Final[tuple[Exist, ...]] = ("new", "resume", "overwrite", "error")
"""What to do if the folder of a new run exists."""

_LOCK_FILE: Final = ".lock"
_MIN_FREE_BYTES: Final = 64 << 20
_PLAIN: Final = (stat.S_IFREG, stat.S_IFDIR)


def process_info() -> dict[str, object]:
    """Returns `pid` and `host` of this process, as `run.json` holds them."""
    return {"pid": os.getpid(), "host": platform.node()}


class RunLock:
    """Holds the lock of a folder from construction to `release`; raises `RunLockedError`."""

    def __init__(self, folder: Path) -> None:
        from filelock import FileLock, Timeout

        self._file = folder / _LOCK_FILE
        self._lock = FileLock(self._file, is_singleton=False, thread_local=False)
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
        self.path = Path(path).absolute()  # the training may change the working folder
        self._shown = str(path)
        self.config = self.path / "config.json"
        self.metadata = self.path / "run.json"
        self.checkpoints = self.path / "ckpt"
        self.log = self.path / "log"
        self.metrics = self.log / "metrics.jsonl"
        self.video = self.path / "video"
        self._lock: RunLock | None = None
        self._locked_config: bytes | None = None

    @classmethod
    def prepare(cls, path: str | os.PathLike[str], exist: Exist = "new") -> RunFolder:
        """Makes and locks the folder of a new run; raises `UsageError` or `RunLockedError`.

        A folder that a killed start left behind, without a config, is used as if it were new.
        Processes that ask for the same path at the same time get different folders.

        Args:
            path: The folder.
            exist: What to do if it exists. `new`: take the first of `path-1`, `path-2`, … that does
                not; `overwrite`: delete the contents of the run's folder; `error`, or `resume` if
                there is nothing to resume: raise an error.
        """
        wanted = Path(path)
        if wanted.name in ("", ".."):
            raise _not_made(wanted, "the path has no name")
        for number in count():
            folder = cls(wanted if number == 0 else wanted.with_name(f"{wanted.name}-{number}"))
            made = folder._make()
            if not made and exist == "new":
                continue
            try:
                folder.lock()
                break
            except RunLockedError:
                if exist != "new":
                    raise
        try:
            folder._clear(exist)
            folder.check_space()
        except BaseException:
            folder.unlock()
            if made:
                folder.path.rmdir()
            raise
        return folder

    def _make(self) -> bool:
        """Makes the folder; returns False if it exists."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.mkdir()
        except FileExistsError:
            if not self.path.parent.is_dir():
                raise _not_made(self, f"{self.path.parent} is not a folder") from None
            return False
        except (OSError, ValueError) as error:  # ValueError: the path has a null byte
            raise _not_made(self, getattr(error, "strerror", None) or str(error)) from None
        return True

    def _clear(self, exist: Exist) -> None:
        """Deletes what is in the folder if `exist` allows it; keeps the lock."""
        content = [each for each in self.path.iterdir() if each.name != _LOCK_FILE]
        # A start that was killed before it wrote `config.json` leaves temporary files alone.
        unfinished = re.compile(r"\..*\.tmp")
        left = [each for each in content if each.is_dir() or not unfinished.fullmatch(each.name)]
        if left and not self.config.is_file():
            raise UsageError(
                f"{self}: not a run folder; nothing was deleted",
                hint="choose another folder with --exp-name",
            )
        if self.config.is_file() and exist != "overwrite":
            raise UsageError(
                f"{self} already exists",
                hint="use --exist new|resume|overwrite, or another --exp-name",
            )
        for each in content:
            remove(each)

    def check_space(self) -> None:
        """Raises `UsageError` if less than 64 MiB are free on the disk."""
        free = shutil.disk_usage(self.path).free
        if free < _MIN_FREE_BYTES:
            few = f"{self}: only {free >> 20} MiB are free on its disk"
            raise UsageError(few, hint="free some, or choose another disk with --exp-name")

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Returns the folder of an existing run, or raises `UsageError`; changes nothing."""
        folder = cls(path)
        if not folder.path.is_dir():
            near = Path("runs", folder.path.name)
            hint = f"it may be {near}" if near.is_dir() else "pass a run folder, as runs/NAME"
            what = "a file, not the folder of a run" if folder.path.is_file() else "no such folder"
            raise UsageError(f"{folder}: {what}", hint=hint)
        if not folder.config.is_file():
            inside = sorted(str(file.parent) for file in Path(path).glob("*/config.json"))
            names = ", ".join(inside[:3]) + (", …" if len(inside) > 3 else "")
            hint = f"runs in this folder: {names}" if inside else "'dicore train' prints its folder"
            raise UsageError(f"{folder}: not a run folder: it has no config.json", hint=hint)
        return folder

    # ---- lock

    def lock(self) -> None:
        """Locks the folder until `unlock`, or raises `RunLockedError`; may be called again."""
        self._lock = self._lock or RunLock(self.path)
        self._locked_config = self.read_config()

    def unlock(self) -> None:
        """Releases the lock; does nothing if the folder is not locked."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def refuse_links(self) -> None:
        """Raises `UsageError` if a link or a pipe is among the files that a resumed run writes."""
        names = (_LOCK_FILE, "config.json", "run.json", "log", "ckpt", "video", "data", "policy")
        tops = [self.path / name for name in names]
        below = (path for top in tops[1:] if not top.is_symlink() for path in top.rglob("*"))
        for path in (*tops, *below):
            if os.path.lexists(path) and stat.S_IFMT(path.lstat().st_mode) not in _PLAIN:
                raise UsageError(
                    f"{path}: a symbolic link or a special file; refusing to write to it",
                    hint="remove it if you trust the run, or start a new run",
                )

    def restore_if_removed(self) -> bool:
        """Makes a locked folder again, with its config, if it was removed during the run.

        Raises `RunLockedError` if another run has taken its place.
        """
        if self._lock is None or self._lock.is_valid():
            return False
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
                write_file(self.config, self._locked_config)
                _log.warning(
                    "%s was removed while training; it is made again, without the earlier logs and"
                    " checkpoints",
                    self,
                )
        return True

    # ---- paths

    def read_config(self) -> bytes | None:
        """Returns the content of `config.json`; None if it does not exist."""
        try:
            return read_regular(self.config)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(f"{self.config}: {error.strerror}") from None

    def keep_config(self) -> None:
        """Copies `config.json` to `config_1.json`, `config_2.json`, …, before it is replaced."""
        names = (self.path / f"config_{number}.json" for number in count(1))
        free = next(path for path in names if not os.path.lexists(path))
        shutil.copyfile(self.config, free)

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return self._shown

    def __repr__(self) -> str:
        return f"RunFolder({self._shown!r})"


def default_name(env: str, policy: str, seed: int) -> str:
    """Returns `runs/<env>_<policy>_s<seed>`, with characters unsuited to file names replaced."""
    return f"runs/{_file_name(env)}_{_file_name(policy)}_s{seed}"


def _file_name(name: str) -> str:
    last = name.rsplit("/", 1)[-1].rsplit(":", 1)[-1].removesuffix(".py")
    return re.sub(r"[^\w.-]+", "_", last).strip("._")[:60] or "unnamed"


def _not_made(folder: RunFolder | Path, reason: str) -> UsageError:
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
        record = read_json(folder / "run.json")
        holder = f"process {record['pid']} on {record['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        record, holder = {}, "another process"
    return RunLockedError(
        f"{folder}: {holder} is training in this folder",
        hint="wait for it, stop it, or choose another folder with --exp-name",
        context={"folder": str(folder), "pid": record.get("pid"), "host": record.get("host")},
    )
