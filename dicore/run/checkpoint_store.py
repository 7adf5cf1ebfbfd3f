"""The checkpoint store of a run: the only writer of `ckpt/`.

Checkpoints are folders `iteration_N`, `best` and `final`; which one is the latest follows from
their manifests, never from a pointer or from the clock.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from dicore.errors import CheckpointCorruptError, CheckpointError, CheckpointUnsafeError
from dicore.run.atomic import Stamp, backup_path, recover, temporary
from dicore.run.checkpoint_io import read_manifest, read_state, stamps, verify, write_state

__all__ = ["CheckpointStore", "checkpoint_name", "read_state", "write_state"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_TRIES: Final = 5
"""Readings of a checkpoint that is being replaced, before its error counts."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SUFFIX: Final = ".pth.tar"
_PERIODIC: Final = re.compile(r"iteration_(\d+)")


def checkpoint_name(name: str) -> str:
    """Returns the folder's name for a checkpoint: `ckpt_best.pth.tar` is `best`.

    Raises:
        CheckpointUnsafeError: the name could lead out of the folder, or is no plain name.
    """
    plain = name.removesuffix(_SUFFIX).removeprefix("ckpt_")
    if not _NAME.fullmatch(plain):
        raise CheckpointUnsafeError(
            f"checkpoint name {name!r} is refused",
            hint="letters, digits, '.', '_' and '-', beginning with a letter or digit",
        )
    return plain


class CheckpointStore:
    """Saves, finds and loads the checkpoints of one run.

    Args:
        folder: The run's `ckpt` folder; made by the first save.
        keep: Number of periodic checkpoints (`iteration_N`) kept; `best`, `final` and other names
            stay.
        metadata: Plain values that every manifest repeats, such as `config_sha256`.
    """

    def __init__(
        self, folder: str | Path, *, keep: int = 3, metadata: Mapping[str, Any] | None = None
    ) -> None:
        self.folder = Path(folder)
        self.keep = max(keep, 1)
        self._metadata = dict(metadata or {})
        self._recovered = False
        self._written: dict[str, list[Stamp | None]] = {}

    def save(
        self,
        name: str,
        state: Mapping[str, Any],
        *,
        train_iter: int = 0,
        env_step: int = 0,
        complete: bool = False,
    ) -> Path:
        """Writes a checkpoint and then drops the periodic ones that are too many.

        Args:
            name: `iteration_N`, `best`, `final` or another; a suffix `.pth.tar` is dropped.
            state: Nested dicts of arrays, tensors and plain values.
            train_iter: Updates made so far; says which checkpoint is the latest.
            env_step: Env steps collected so far.
            complete: It holds all that a run needs to go on.

        Returns:
            The checkpoint's folder.

        Raises:
            CheckpointWriteError: nothing was written; older checkpoints stand.
            CheckpointUnsafeError: the name is refused.
        """
        path = self.folder / checkpoint_name(name)
        if not self._recovered and self.folder.is_dir():
            recover(self.folder)
        self._recovered = True
        metadata = {**self._metadata, "train_iter": train_iter, "env_step": env_step}
        if complete:
            metadata["complete"] = True
        self._written[path.name] = write_state(path, state, metadata)
        self._prune()
        return path

    def load(self, name: str | Path) -> Any:
        """Reads a checkpoint by name, or by path if it has a separator or is a `Path`.

        Raises:
            CheckpointError: there is none, or it cannot be used; see `read_state`.
        """
        try:
            return self._settled(name, read_state)
        except CheckpointError as error:
            path = self._find(name)
            if path.exists() or path.is_symlink():
                raise
            names = ", ".join(self.names()) or "none"
            raise type(error)(f"{path}: no checkpoint there", hint=f"there are: {names}") from None

    def names(self) -> list[str]:
        """Returns the checkpoints there are, oldest first, whole or not."""
        found = {path.name: path for path in self._folders()}
        return sorted(found, key=lambda name: _age(found[name]))

    @property
    def best(self) -> str | None:
        """`best` if there is such a checkpoint and every byte of it is right."""
        return self._first_valid(lambda: [name for name in self.names() if name == "best"])

    def latest(self) -> str | None:
        """Returns the name of the newest checkpoint whose every byte is right.

        Broken ones are passed over with a warning that names both.
        """
        return self._first_valid(lambda: self.names()[::-1])

    def resumable(self) -> str | None:
        """Returns the name of the newest whole checkpoint that a run can go on from.

        Broken ones are passed over with a warning that names both. None: there never was one.

        Raises:
            CheckpointCorruptError: there are some, and each is broken.
        """
        broken: list[str] = []
        name = self._first_valid(
            lambda: [name for name in self.names()[::-1] if self._may_go_on(name)], broken
        )
        if name is None and broken:
            raise CheckpointCorruptError(
                f"{self.folder}: no checkpoint is whole: {'; '.join(broken)}",
                hint="--exist new starts afresh in a sibling folder",
                context={"broken": tuple(broken)},
            )
        return name

    def _may_go_on(self, name: str) -> bool:
        try:
            return bool(self._settled(name, read_manifest).metadata.get("complete"))
        except CheckpointError:
            return name != "best"  # it may have been complete, which `best` never is

    def metadata(self, name: str) -> Mapping[str, Any]:
        """Returns what a checkpoint's manifest says of it; nothing where it cannot be read."""
        try:
            return self._settled(name, read_manifest).metadata
        except CheckpointError:
            return {}

    def best_or_latest(self) -> str | None:
        """Returns `best` if it is whole, else what `latest` returns."""

        def listed() -> list[str]:
            names = self.names()[::-1]
            return sorted(names, key=lambda name: name != "best")

        return self._first_valid(listed)

    def _first_valid(
        self, listed: Callable[[], list[str]], broken: list[str] | None = None
    ) -> str | None:
        """Returns the first whole one; looks again where a writer dropped some in the meantime."""
        names = listed()
        for _ in range(_TRIES):
            reasons: list[str] = []
            name = self._first_whole(names, reasons)
            before, names = names, listed() if name is None else names
            if names == before:
                break
        if broken is not None:
            broken += reasons
        elif name is None and reasons:
            _log.warning("no checkpoint is whole: %s", "; ".join(reasons))
        return name

    def _first_whole(self, names: list[str], broken: list[str]) -> str | None:
        for name in names:
            try:
                self._settled(name, verify)
            except CheckpointError as error:
                if self._find(name).exists():
                    broken.append(f"{name} ({error.message})")
                continue
            if broken:
                _log.warning("checkpoint %s is used instead of %s", name, "; ".join(broken))
            return name
        return None

    def _settled(self, name: str | Path, read: Callable[[Path], T]) -> T:
        """Reads a checkpoint; once more where a writer replaced it in the meantime."""
        for _ in range(_TRIES):
            path = self._find(name)
            before = _identity(path)
            try:
                return read(path)
            except CheckpointError:
                if before is not None and _identity(self._find(name)) == before:
                    raise
        return read(self._find(name))

    def _find(self, name: str | Path) -> Path:
        if isinstance(name, Path) or "/" in name or "\\" in name:
            path = Path(name)
            return path if path.exists() else path.with_name(path.name.removesuffix(_SUFFIX))
        path = self.folder / checkpoint_name(name)
        return path if path.exists() or not backup_path(path).is_dir() else backup_path(path)

    def _folders(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        with os.scandir(self.folder) as entries:  # one reading tells names and kinds of that moment
            folders = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
        plain = {name for name in folders if _NAME.fullmatch(name)}
        plain |= {name.removeprefix(".old-") for name in folders if name.startswith(".old-")}
        return [self.folder / name for name in plain]

    def _prune(self) -> None:
        periodic = [name for name in self.names() if _PERIODIC.fullmatch(name)]
        if len(periodic) <= self.keep:
            return
        newest = periodic[::-1]
        surplus = newest[self.keep :]
        if not any(map(self._is_whole, newest[: self.keep])):
            whole = next((name for name in surplus if self._is_whole(name)), None)
            surplus = [name for name in surplus if name != whole]
        for name in surplus:
            path = self.folder / name
            unnamed = temporary(path)  # so that nobody meets half of it
            with suppress(OSError):
                path.rename(unnamed)
            shutil.rmtree(unnamed, ignore_errors=True)
            self._written.pop(name, None)

    def _is_whole(self, name: str) -> bool:
        """Says whether it can be read; what nobody wrote to since it was saved is not read."""
        path = self.folder / name
        if self._written.get(name) == stamps(path):
            return True
        try:
            verify(path)
        except CheckpointError:
            return False
        return True


def _identity(path: Path) -> tuple[str, int, int] | None:
    """Tells a folder from the one that stood there before; a number alone may come back."""
    try:
        found = path.stat()
    except OSError:
        return None
    return path.name, found.st_ino, found.st_ctime_ns


def _age(path: Path) -> tuple[int, int, str]:
    """Orders checkpoints: by iteration, then `final` after `iteration_N` after `best`."""
    match = _PERIODIC.fullmatch(path.name)
    if match is not None:
        return int(match[1]), 1, path.name
    try:
        where = path if path.exists() else backup_path(path)
        train_iter = int(read_manifest(where).metadata.get("train_iter", 0))
    except (CheckpointError, TypeError, ValueError):
        return -1, 0, path.name
    return train_iter, 2 if path.name == "final" else 0, path.name
