"""Places of a hub: folders, stores that fsspec knows, and web servers, which are read only."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import quote

from dicore.errors import MissingDependencyError, UsageError
from dicore_tools.foreign import Take, fetch, is_web, one_line, taken, without_user

__all__ = ["Store", "open_store"]


class Store(Protocol):
    """Files by path."""

    def read(self, path: str, at_most: int, take: Take | None = None) -> bytes:
        """Returns a file, or passes it on in parts; raises `FileNotFoundError` or `UsageError`."""

    def write(self, path: str, data: bytes) -> None:
        """Writes a file."""

    def remove(self, path: str) -> None:
        """Removes a file, if it is there and the place allows it."""

    def names(self) -> list[str] | None:
        """Returns the names of the folders; None: the place cannot be listed."""


def open_store(place: str) -> Store:
    """Returns a place: a folder, an address of fsspec (`s3://bucket`), or `http(s)://`.

    Raises:
        UsageError: there is no such kind of place.
        MissingDependencyError: fsspec, or the package for this kind, is not installed.
    """
    if not place.strip():
        raise UsageError("no place is named", hint="a folder, s3://…, hf://…, https://…")
    if is_web(place):
        return _Web(place.rstrip("/"))
    shown = without_user(place)
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingDependencyError(
            "a hub needs fsspec", hint="pip install 'dicore-tools[hub]'"
        ) from error
    try:
        system, root = url_to_fs(place)
    except ImportError as error:
        raise MissingDependencyError(
            f"{shown}: {one_line(error)}", hint="pip install what it names"
        ) from error
    except (ValueError, OSError) as error:
        raise UsageError(
            f"{shown}: {one_line(error)}", hint="a folder, s3://…, hf://…, https://…"
        ) from error
    return _Files(shown, system, str(root).rstrip("/"))


class _Files:
    """A folder or store of fsspec."""

    def __init__(self, place: str, system: Any, root: str) -> None:
        self._place, self._system, self._root = place, system, root

    def read(self, path: str, at_most: int, take: Take | None = None) -> bytes:
        try:
            with self._system.open(f"{self._root}/{path}", "rb") as file:
                return taken(file.read, at_most, take, f"{self._place}/{path}")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise UsageError(f"{self._place}/{path}: cannot be read: {error}") from error

    def write(self, path: str, data: bytes) -> None:
        target = f"{self._root}/{path}"
        try:
            self._system.makedirs(target.rpartition("/")[0], exist_ok=True)
            with self._system.open(target, "wb") as file:
                file.write(data)
        except (OSError, NotImplementedError) as error:
            raise UsageError(f"{self._place}/{path}: cannot be written: {error}") from error

    def remove(self, path: str) -> None:
        with suppress(OSError, NotImplementedError):
            self._system.rm_file(f"{self._root}/{path}")

    def names(self) -> list[str]:
        try:
            self._system.invalidate_cache()
            found = self._system.ls(self._root, detail=True)
        except FileNotFoundError as error:
            raise UsageError(f"{self._place}: no such place") from error
        except OSError as error:
            raise UsageError(f"{self._place}: cannot be listed: {error}") from error
        rows = [each["name"].rstrip("/") for each in found if each["type"] == "directory"]
        return sorted(name.rpartition("/")[2] for name in rows)


class _Web:
    """A web server with the files of a hub, which is read only."""

    def __init__(self, place: str) -> None:
        self._place = place

    def read(self, path: str, at_most: int, take: Take | None = None) -> bytes:
        return fetch(f"{self._place}/{quote(path)}", at_most, take)

    def write(self, path: str, data: bytes) -> None:
        raise UsageError(
            f"{without_user(self._place)}: a web server is only read",
            hint=f"push {path} to the folder or store that it serves",
        )

    def remove(self, path: str) -> None:
        self.write(path, b"")

    def names(self) -> None:
        return None
