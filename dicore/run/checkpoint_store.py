"""The checkpoint store of a run: saves, finds and loads the folders `iteration_N`, `best`, `final`.

The store is the only writer of `ckpt/`. Which checkpoint is the latest follows from the manifests,
not from a pointer or from file times.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final, TypeVar

from dicore.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointUnsafeError,
    CheckpointWriteError,
)
from dicore.run.atomic import Stamp, backup_path, recover, stamp, temporary
from dicore.run.checkpoint_io import (
    Copies,
    encoded,
    read_manifest,
    read_state,
    stamps,
    verify,
    write_encoded,
    write_state,
)

__all__ = ["CheckpointStore", "checkpoint_name", "read_state", "write_state"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_FAILURES: Final = 3
"""Failed saves in a row after which a run gives up."""
_MAX_READS: Final = 5
"""Attempts to read a checkpoint while a writer replaces it."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SUFFIX: Final = ".pth.tar"
SAVE_EVERY_S, _FIRST_S = 60.0, 5.0
"""Seconds of training that a killed run loses at most, unless saving is slow; at first fewer."""
BESIDE_BYTES = 16 << 20
"""Size from which a state is copied and written beside the training, if that is asked for."""
LATEST: Final = "latest"
"""Name of the checkpoint that is written every minute, at first sooner."""
_PERIODIC: Final = re.compile(r"iteration_(\d+)")


def checkpoint_name(name: str) -> str:
    """Returns the folder name of a checkpoint: `best` for `ckpt_best.pth.tar`."""
    plain = name.removesuffix(_SUFFIX).removeprefix("ckpt_")
    if not _NAME.fullmatch(plain):
        raise CheckpointUnsafeError(
            f"invalid checkpoint name {name!r}",
            hint="use letters, digits, '.', '_' and '-', beginning with a letter or digit",
        )
    return plain


class CheckpointStore:
    """Saves, finds and loads the checkpoints of one run; the first save makes the folder.

    It keeps `keep` periodic checkpoints (`iteration_N`) and all others. Every manifest repeats
    `metadata`. `failures` counts the failed saves since the last successful one.
    """

    def __init__(
        self, folder: str | Path, *, keep: int = 3, metadata: Mapping[str, object] | None = None
    ) -> None:
        self.folder = Path(folder)
        self.keep = max(keep, 1)
        self.failures = 0
        self._metadata = dict(metadata or {})
        self._recovered = False
        self._next, self._every = inf, _FIRST_S / 2
        self._written: dict[str, list[Stamp | None]] = {}
        self._copies = Copies()
        self._writing: Future[object] | None = None
        self._beside = ""
        self._end: Callable[[], None] | None = None

    def save(
        self,
        name: str,
        state: Mapping[str, object],
        *,
        train_iter: int = 0,
        env_step: int = 0,
        complete: bool = False,
        beside: bool = False,
    ) -> Path:
        """Writes a checkpoint; after a periodic one, deletes the oldest of them beyond `keep`.

        After a `CheckpointWriteError` older checkpoints are unchanged. Returns the folder.

        Args:
            name: `iteration_N`, `best`, `final` or another name; a suffix `.pth.tar` is dropped.
            state: Nested dicts of arrays, tensors and plain values.
            train_iter: Gradient updates made so far; orders the checkpoints.
            env_step: Env steps collected so far.
            complete: The state holds everything that a run needs to resume.
            beside: If the state is large and a copy fits into memory, returns when it is copied;
                a thread writes the copy, and `settle` raises what `save` would have. One at a
                time: waits, by `settle`, for the one before.
        """
        path = self.folder / checkpoint_name(name)
        if beside or path.name in ("final", self._beside):
            self.settle()
        if not self._recovered and self.folder.is_dir():
            recover(self.folder)
        self._recovered = True
        metadata = {**self._metadata, "train_iter": train_iter, "env_step": env_step}
        if complete:
            metadata["complete"] = True
        began = time.monotonic()
        skeleton, pieces = encoded(state)
        size = sum(map(len, pieces))
        beside = beside and size >= BESIDE_BYTES and self._copies.fit(size)
        pieces = self._copies.of(pieces) if beside else pieces
        write = partial(write_encoded, path, skeleton, pieces, metadata)
        if beside:
            thread = ThreadPoolExecutor(1)
            self._beside, self._writing = path.name, thread.submit(write)
            thread.shutdown(wait=False)
            self._end = partial(self._ended, path.name, complete, began, self._writing.result)
        else:
            self._ended(path.name, complete, began, write)
        return path

    def _ended(self, name: str, complete: bool, began: float, write: Callable[[], Any]) -> None:
        """Writes, or waits for the thread that does, and does what follows a save."""
        try:
            self._written[name] = write()
        except CheckpointWriteError:
            self.failures += 1
            raise
        self.failures = 0
        if complete:
            self.start_clock(time.monotonic() - began)
        if _PERIODIC.fullmatch(name):
            self._prune()
        if name == "final":
            self.delete(LATEST)

    def settle(self, *, for_good: bool = False) -> None:
        """Waits for the checkpoint that is written beside the training; raises its error.

        Args:
            for_good: Gives the memory of the copies back.
        """
        try:
            if self._end is not None:
                self._end()
        finally:
            if self._writing is not None and self._writing.done():  # else a signal ended the wait
                self._writing, self._beside, self._end = None, "", None
        if for_good:
            self._copies = Copies()

    def start_clock(self, cost: float = 0.0) -> None:
        """Begins the time after which the next checkpoint is late.

        Args:
            cost: Seconds that saving takes; training becomes at most 2 % slower by it.
        """
        self._every = min(2 * self._every, SAVE_EVERY_S)
        self._next = time.monotonic() + max(self._every, 50 * cost)

    @property
    def is_late(self) -> bool:
        """The last complete checkpoint is a minute old, or fifty times what saving one takes.

        While one is being written beside the training, none is late; when it is written, `settle`
        is.
        """
        return time.monotonic() >= self._next if self._writing is None else self._writing.done()

    def may_retry(self, error: CheckpointWriteError) -> bool:
        """Returns whether a later save may succeed after `error`, and too few have failed yet."""
        return isinstance(error.__cause__, OSError) and self.failures < _MAX_FAILURES

    def load(self, name: str | Path) -> object:
        """Reads a checkpoint by name, or by path if it has a separator or is a `Path`.

        Raises:
            CheckpointError: it does not exist or cannot be used; see `read_state`.
        """
        try:
            return self._read_stable(name, read_state)
        except CheckpointError as error:
            path = self._find(name)
            if path.exists() or path.is_symlink():
                raise
            names = ", ".join(self.names()) or "none"
            raise type(error)(f"{path}: no such checkpoint", hint=f"existing: {names}") from None

    def names(self) -> list[str]:
        """Returns the names of all checkpoints, valid or not, oldest first."""
        return [path.name for path in sorted(self._folders(), key=_age)]

    def latest(self) -> str | None:
        """Returns the newest valid checkpoint; warns if invalid ones are skipped."""
        return self._first_valid(lambda: self.names()[::-1])[0]

    def resumable(self) -> str | None:
        """Returns the newest valid checkpoint that a run can resume from; None: there is none.

        Raises:
            CheckpointCorruptError: there are some, and all are invalid.
            CheckpointError: there are others alone, such as imported weights.
        """
        return self.newest_state()[0]

    def newest_state(self) -> tuple[str | None, object]:
        """Returns name and state of the checkpoint of `resumable`; None and None: there is none.

        `best`, which lacks bulky parts, is better than none.
        """
        broken: list[str] = []
        name, state = self._first_valid(
            lambda: [*filter(self._may_resume, self.names()[::-1])], broken, load=True
        )
        if name is None and broken:
            raise CheckpointCorruptError(
                f"{self.folder}: all checkpoints are incomplete or corrupt: {'; '.join(broken)}",
                hint="use --exist new to start a new run in another folder",
                context={"broken": tuple(broken)},
            )
        if name is None and "best" in self.names():
            with suppress(CheckpointError):
                return "best", self.load("best")
        if name is None and (others := [each for each in self.names() if each != "exception"]):
            raise CheckpointError(
                f"{self.folder}: no training can be resumed from {', '.join(others)}",
                hint="begin a new one with its network: dicore train RUN/config.json --from RUN",
            )
        return name, state

    def _may_resume(self, name: str) -> bool:
        try:
            return bool(self._read_stable(name, read_manifest).metadata.get("complete"))
        except CheckpointError:
            return name != "best"  # another one may have been complete; `best` never is

    def metadata(self, name: str) -> Mapping[str, Any]:
        """Returns the metadata in a checkpoint's manifest; empty if it cannot be read."""
        try:
            return self._read_stable(name, read_manifest).metadata
        except CheckpointError:
            return {}

    def best_or_latest(self) -> str | None:
        """Returns `best` if it is valid, else what `latest` returns."""
        return self._first_valid(lambda: [*dict.fromkeys(["best", *self.names()[::-1]])])[0]

    def _first_valid(
        self,
        candidates: Callable[[], list[str]],
        broken: list[str] | None = None,
        *,
        load: bool = False,
    ) -> tuple[str | None, object]:
        """Returns the first valid candidate, and its state with `load`.

        Tries again if a writer deleted some meanwhile.
        """
        names: list[str] | None = None
        reasons: list[str] = []
        for _ in range(_MAX_READS):
            before, names = names, candidates()
            if names == before:
                break
            reasons = []
            for name in names:
                try:
                    content = self._read_stable(name, read_state if load else verify)
                except CheckpointError as error:
                    if self._find(name).exists():
                        reasons.append(f"{name} ({error.message})")
                    continue
                if reasons:
                    _log.warning("checkpoint %s is used instead of %s", name, "; ".join(reasons))
                return name, content
        if broken is not None:
            broken += reasons
        elif reasons:
            _log.warning("all checkpoints are incomplete or corrupt: %s", "; ".join(reasons))
        return None, None

    def _read_stable(self, name: str | Path, read: Callable[[Path], T]) -> T:
        """Reads a checkpoint, again if a writer replaced it meanwhile."""
        for _ in range(_MAX_READS):
            path = self._find(name)
            before = stamp(path)
            try:
                return read(path)
            except CheckpointError:
                now = self._find(name)
                if before is not None and (now, stamp(now)) == (path, before):
                    raise
        return read(self._find(name))

    def _find(self, name: str | Path) -> Path:
        self._wait()
        if isinstance(name, Path) or "/" in name or "\\" in name:
            path = Path(name)
            return path if path.exists() else path.with_name(path.name.removesuffix(_SUFFIX))
        path = self.folder / checkpoint_name(name)
        return path if path.exists() or not backup_path(path).is_dir() else backup_path(path)

    def _wait(self) -> None:
        """Waits until what is being written can be read."""
        if self._writing is not None:
            wait([self._writing])

    def _folders(self) -> list[Path]:
        self._wait()
        if not self.folder.is_dir():
            return []
        with os.scandir(self.folder) as entries:  # one pass, so that names and kinds agree
            folders = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
        plain = {name for name in folders if _NAME.fullmatch(name)}
        plain |= {name.removeprefix(".old-") for name in folders if name.startswith(".old-")}
        return [self.folder / name for name in plain]

    def _prune(self) -> None:
        newest = [*filter(_PERIODIC.fullmatch, self.names()[::-1])]
        surplus = newest[self.keep :]
        if not surplus:
            return
        if not any(map(self._is_valid, newest[: self.keep])):
            valid = next((name for name in surplus if self._is_valid(name)), None)
            surplus = [name for name in surplus if name != valid]
        for name in surplus:
            self.delete(name)

    def delete(self, name: str) -> None:
        """Deletes a checkpoint, if it is there."""
        path = self.folder / name
        unnamed = temporary(path)  # so that no reader finds a half-deleted folder
        with suppress(OSError):
            path.rename(unnamed)
        shutil.rmtree(unnamed, ignore_errors=True)
        self._written.pop(name, None)

    def _is_valid(self, name: str) -> bool:
        """Verifies a checkpoint; skips reading files that are unchanged since they were saved."""
        path = self.folder / name
        if self._written.get(name) == stamps(path):
            return True
        try:
            verify(path)
        except CheckpointError:
            return False
        return True


def _age(path: Path) -> tuple[int, int, str]:
    """Orders checkpoints by iteration, then `best` < `iteration_N` < `final`."""
    match = _PERIODIC.fullmatch(path.name)
    if match is not None:
        return int(match[1]), 1, path.name
    try:
        where = path if path.exists() else backup_path(path)
        train_iter = int(read_manifest(where).metadata.get("train_iter", 0))
    except (CheckpointError, TypeError, ValueError):
        return -1, 0, path.name
    return train_iter, 2 if path.name == "final" else 0, path.name
