"""How a comm component is reached, and where it leaves samples and parameters for the others."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dicore.errors import UsageError
from dicore_dist.links.channel import token_of
from dicore_dist.links.http import HttpTransport
from dicore_plugins.messages import load_file, save_file

__all__ = ["FileStore", "Link", "Store", "file_link"]


class Store(Protocol):
    """Keeps what several processes read, by name; nobody reads half of it."""

    def save(self, name: str, content: object) -> None:
        """Stores plain data or a `Batch`, in the place of what had the name before."""

    def load(self, name: str) -> Any:
        """Returns what has a name; raises `FileNotFoundError` if there is nothing."""

    def stamp(self, name: str) -> Hashable | None:
        """Returns what changes whenever a name gets another content; None: there is nothing."""

    def remove(self, name: str) -> None:
        """Removes a name, if it is there."""

    def clear(self, job_id: str) -> None:
        """Removes what the processes of a training left, when it has ended."""


class FileStore:
    """A store of files with checksums, in a folder that all processes of a user share.

    Args:
        folder: The folder.
        token: The shared token, with which checksums are made; "": without a key.
    """

    def __init__(self, folder: Path, token: str = "") -> None:
        self.folder, self._key = folder, token.encode()

    def save(self, name: str, content: object) -> None:
        """Writes a file, which appears complete or not at all."""
        save_file(self._path(name), content, self._key)

    def load(self, name: str) -> Any:
        """Reads a file; raises `FrameError` if it was cut off or changed."""
        return load_file(self._path(name), self._key)

    def stamp(self, name: str) -> Hashable | None:
        """Returns time and inode of a file."""
        try:
            status = self._path(name).stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_ino

    def remove(self, name: str) -> None:
        """Removes a file."""
        self._path(name).unlink(missing_ok=True)

    def clear(self, job_id: str) -> None:
        """Removes the samples of a training, and files that were cut off."""
        for pattern in (f"{job_id}_*.frame", f".{job_id}_*.part"):
            for file in self.folder.glob(pattern):
                file.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if Path(name).name != name or name in ("", "..") or "\0" in name:  # of another process
            raise UsageError(f"not the name of a file: {name!r}")
        return self.folder / name


@dataclass(frozen=True)
class Link:
    """How a comm component is reached, and its stores.

    Args:
        transport: Receives the tasks; has `address`, by which the coordinator reaches it.
        data: Samples.
        policies: Parameters.
        saved: What outlives the processes: the learner's own state.
    """

    transport: Any
    data: Store
    policies: Store
    saved: FileStore


def file_link(host: str, port: int, path_data: str, path_policy: str, token: str) -> Link:
    """Returns HTTP at `host:port`, and files in two folders."""
    token = token_of(token)
    policies = FileStore(Path(path_policy), token)
    transport = HttpTransport(host, port, token=token)
    return Link(transport, FileStore(Path(path_data), token), policies, policies)
