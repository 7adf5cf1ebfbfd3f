"""Places of a hub: folders, stores that fsspec knows, and web servers, which are read only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from dicore.errors import MissingDependencyError, UsageError

__all__ = ["Store", "open_store"]

_PATIENCE_S: Final = 30.0
_CHUNK: Final = 1 << 20
Take = Callable[[bytes], object]


class Store(Protocol):
    """Files by path."""

    def read(self, path: str, at_most: int, take: Take | None = None) -> bytes:
        """Returns a file, or passes it on in parts; raises `FileNotFoundError` or `UsageError`."""

    def write(self, path: str, data: bytes) -> None:
        """Writes a file."""

    def names(self) -> list[str] | None:
        """Returns the names of the folders; None: the place cannot be listed."""


def open_store(place: str) -> Store:
    """Returns a place: a folder, an address of fsspec (`s3://bucket`), or `http(s)://`.

    Raises:
        UsageError: there is no such kind of place.
        MissingDependencyError: fsspec, or the package for this kind, is not installed.
    """
    if urlsplit(place).scheme in ("http", "https"):
        return _Web(place.rstrip("/"))
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
            f"{place}: {error}", hint="pip install what it names"
        ) from error
    except ValueError as error:
        raise UsageError(f"{place}: {error}", hint="a folder, s3://…, hf://…, https://…") from error
    return _Files(place, system, str(root).rstrip("/"))


class _Files:
    """A folder or store of fsspec."""

    def __init__(self, place: str, system: Any, root: str) -> None:
        self._place, self._system, self._root = place, system, root

    def read(self, path: str, at_most: int, take: Take | None = None) -> bytes:
        try:
            with self._system.open(f"{self._root}/{path}", "rb") as file:
                return _taken(file.read, at_most, take, f"{self._place}/{path}")
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

    def names(self) -> list[str]:
        try:
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
        address = f"{self._place}/{quote(path)}"
        try:
            with urlopen(Request(address), timeout=_PATIENCE_S) as answer:  # noqa: S310 - http(s)
                return _taken(answer.read, at_most, take, address)
        except HTTPError as error:
            error.close()
            if error.code == 404:
                raise FileNotFoundError(address) from error
            raise UsageError(f"{address}: {error}") from error
        except (URLError, OSError) as error:
            raise UsageError(f"{address}: cannot be read: {error}") from error

    def write(self, path: str, data: bytes) -> None:
        raise UsageError(
            f"{self._place}: a web server is only read",
            hint=f"push {path} to the folder or store that it serves",
        )

    def names(self) -> None:
        return None


def _taken(read: Callable[[int], bytes], at_most: int, take: Take | None, where: str) -> bytes:
    whole = bytearray()
    count = 0
    while part := read(_CHUNK):
        count += len(part)
        if count > at_most:
            raise UsageError(f"{where}: larger than the {at_most} bytes that are expected")
        if take is None:
            whole += part
        else:
            take(part)
    return bytes(whole)
