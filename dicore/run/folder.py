"""The folder of a run: where everything that a training leaves behind has its place.

`config.json run.json ckpt/ log/ video/`; the folders inside appear with their first content.
"""

from __future__ import annotations

import json
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

_NAME = ".lock"


def process_info() -> dict[str, Any]:
    """Returns what `run.json` tells of the process that runs: `pid` and `host`."""
    return {"pid": os.getpid(), "host": platform.node()}


class RunLock:
    """Holds the lock of one folder from construction to `release`.

    Args:
        folder: The run's folder.

    Raises:
        RunLockedError: another process, or another run of this one, holds it.
        UsageError: the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        from filelock import FileLock, Timeout

        self._file = folder / _NAME
        self._lock = FileLock(self._file, is_singleton=False)
        try:
            self._lock.acquire(timeout=0)
            self._ours = _identity(self._file)
        except Timeout:
            raise _locked(folder) from None
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written: {error.strerror}") from None

    def stands(self) -> bool:
        """Says whether the folder is still the one that was locked, and nobody removed it."""
        try:
            return self._lock.is_locked and _identity(self._file) == self._ours
        except OSError:
            return False

    def release(self) -> None:
        """Lets go; harmless when repeated."""
        if self.stands():
            with suppress(OSError):  # first: once it is released the file may be another's
                self._file.unlink()
        self._lock.release()


def _identity(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_dev, found.st_ino


def _locked(folder: Path) -> RunLockedError:
    try:
        record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        holder = f"process {record['pid']} on {record['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        record, holder = {}, "another process"
    return RunLockedError(
        f"{folder}: {holder} is training there",
        hint="wait for it, stop it, or choose another folder with --exp-name",
        context={"folder": str(folder), "pid": record.get("pid"), "host": record.get("host")},
    )


Exist = Literal["new", "resume", "overwrite", "error"]
EXIST: Final[tuple[Exist, ...]] = ("new", "resume", "overwrite", "error")
"""What to do where the folder of a new run exists."""

_LOW_SPACE = 64 << 20


class RunFolder:
    """The places inside a run's folder; makes nothing by itself.

    Args:
        path: The folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | Path) -> RunFolder:
        """Makes the folder, or the first free of `path-1`, `path-2`, … where one stands already.

        Several processes may ask for one path at a time: each gets a folder of its own.

        Raises:
            UsageError: the folder cannot be made, or its disk is full.
        """
        wanted = Path(path)
        if wanted.name in ("", ".."):
            raise _refused(wanted, "it has no name of its own")
        for number in count():
            folder = wanted if number == 0 else wanted.with_name(f"{wanted.name}-{number}")
            try:
                wanted.parent.mkdir(parents=True, exist_ok=True)
                folder.mkdir()
            except FileExistsError:
                if not wanted.parent.is_dir():
                    raise _refused(folder, f"{wanted.parent} is not a folder") from None
                continue
            except (OSError, ValueError) as error:  # a null byte is no name
                raise _refused(folder, getattr(error, "strerror", None) or str(error)) from None
            break
        try:
            cls(folder).check_space()
        except UsageError:
            folder.rmdir()
            raise
        return cls(folder)

    def check_space(self) -> None:
        """Looks whether there is room for a run.

        Raises:
            UsageError: the disk is as good as full.
        """
        free = shutil.disk_usage(self.path).free
        if free < _LOW_SPACE:
            raise _refused(self.path, f"only {free >> 20} MiB are free on its disk")

    @classmethod
    def prepare(cls, path: str | Path, exist: Exist = "new") -> RunFolder:
        """Makes the folder of a new run, as `exist` says where one stands already.

        Args:
            path: The folder.
            exist: `new` takes a numbered sibling; `overwrite` empties the run that stands there;
                `error` refuses. (`resume` makes no new run.)

        Raises:
            UsageError: it exists and `error` is said, or it is not the folder of a run and
                `overwrite` is said, or it cannot be made.
            RunLockedError: a process is training in the folder that should be overwritten.
        """
        folder = cls(path)
        if exist == "new" or not folder.path.exists():
            return cls.create(path)
        if exist != "overwrite":
            raise UsageError(
                f"{folder}: exists already",
                hint="--exist new|resume|overwrite, or another --exp-name",
            )
        if not folder.config.is_file() and (not folder.path.is_dir() or any(folder.path.iterdir())):
            raise UsageError(
                f"{folder}: is not the folder of a run and is left alone",
                hint="choose another with --exp-name",
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
        """Returns an existing run's folder and changes nothing.

        Raises:
            UsageError: there is no such folder, or it is not that of a run.
        """
        folder = cls(path)
        if not folder.path.is_dir():
            raise UsageError(f"{folder.path}: no such folder", hint="name the folder of a run")
        if not folder.config.is_file():
            inside = sorted(str(file.parent) for file in folder.path.glob("*/config.json"))
            names = ", ".join(inside[:3]) + (", …" if len(inside) > 3 else "")
            raise UsageError(
                f"{folder.path}: not the folder of a run: it has no config.json",
                hint=f"there are runs in it: {names}"
                if inside
                else "name the folder that 'dicore train' printed",
            )
        return folder

    @property
    def config(self) -> Path:
        """The compiled config, exact."""
        return self.path / "config.json"

    @property
    def metadata(self) -> Path:
        """`run.json`: command line, versions, seed, components, result."""
        return self.path / "run.json"

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoint store."""
        return self.path / "ckpt"

    @property
    def log(self) -> Path:
        """Folder of `metrics.jsonl`, the event files and the texts."""
        return self.path / "log"

    @property
    def metrics(self) -> Path:
        """`log/metrics.jsonl`, every logged number."""
        return self.log / "metrics.jsonl"

    @property
    def video(self) -> Path:
        """Folder of recorded episodes."""
        return self.path / "video"

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"


def default_name(env: str, policy: str, seed: int) -> str:
    """Returns `runs/<env>_<policy>_s<seed>`, with what a file name should not hold replaced."""
    return f"runs/{_plain(env)}_{_plain(policy)}_s{seed}"


def _plain(name: str) -> str:
    last = name.rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    return re.sub(r"[^\w.-]+", "_", last).strip("._")[:60] or "unnamed"


def _refused(folder: Path, reason: str) -> UsageError:
    return UsageError(
        f"cannot make the run folder {folder}: {reason}",
        hint="choose another with --exp-name",
        context={"folder": str(folder)},
    )
