"""Stores for what is too large for messages: files in a shared folder, or shared memory.

`save` returns a handle of plain data, which is sent; `load` in another process returns the content.
"""

from __future__ import annotations

import abc
import contextlib
import secrets
import time
import uuid
from collections import deque
from collections.abc import Mapping
from multiprocessing import shared_memory
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from dicore.errors import UsageError
from dicore_plugins.messages import encode, load_file, save_file, size_of, unpack

if TYPE_CHECKING:
    from torch import nn

__all__ = ["FileModelLoader", "FileStorageLoader", "SharedMemoryLoader", "StorageLoader"]

_SHM: Final = Path("/dev/shm")  # noqa: S108 - where Linux shows shared memory
"""Folder of the blocks of shared memory, on Linux."""


class StorageLoader(Protocol):
    """What exchangers use to store what they send."""

    def save(self, content: object) -> Mapping[str, object]:
        """Stores data; returns a handle of plain data."""

    def load(self, handle: Mapping[str, object]) -> Any:
        """Returns the data of a handle."""


class _Expiring(abc.ABC):
    """Removes what was stored more than `ttl` seconds ago."""

    def __init__(self, ttl: float) -> None:
        if ttl <= 0:
            raise UsageError(f"ttl must be > 0 s, got {ttl}")
        self._ttl = ttl
        self._stored: deque[tuple[float, object]] = deque()

    def _note(self, item: object) -> None:
        self._stored.append((time.monotonic(), item))
        while self._stored[0][0] < time.monotonic() - self._ttl:
            self._remove(self._stored.popleft()[1])

    def close(self) -> None:
        """Removes everything that this process stored."""
        while self._stored:
            self._remove(self._stored.popleft()[1])

    @abc.abstractmethod
    def _remove(self, item: Any) -> None:
        """Removes one item."""


class FileStorageLoader(_Expiring):
    """Stores data in files with a checksum; a file appears complete or not at all.

    Args:
        dirpath: Folder that all processes share.
        ttl: Seconds after which the process that wrote a file removes it.
    """

    def __init__(self, dirpath: str | Path, ttl: float = 20.0) -> None:
        super().__init__(ttl)
        self._folder = Path(dirpath)

    def save(self, content: object) -> Mapping[str, object]:
        """Writes a file."""
        name = f"{uuid.uuid4().hex}.frame"
        key = secrets.token_hex(32)  # it is sent, so that nobody else can put a file there
        save_file(self._folder / name, content, key.encode())
        self._note(self._folder / name)
        return {"file": name, "key": key}

    def load(self, handle: Mapping[str, object]) -> Any:
        """Reads a file of the folder."""
        name = str(handle["file"])
        if Path(name).name != name:  # it comes from another process
            raise UsageError(f"not the name of a stored file: {name!r}")
        return load_file(self._folder / name, str(handle["key"]).encode())

    def _remove(self, item: Path) -> None:
        item.unlink(missing_ok=True)


class FileModelLoader(FileStorageLoader):
    """Stores parameters in files; see `FileStorageLoader`.

    Args:
        model: Has `state_dict`; DI-engine's form passes it, the exchanger passes the state.
        dirpath: Folder that all processes share.
        ttl: Seconds after which the process that wrote a file removes it.
    """

    def __init__(self, model: nn.Module, dirpath: str | Path, ttl: float = 20.0) -> None:
        super().__init__(dirpath, ttl)
        self._model = model

    def save(self, content: object = None) -> Mapping[str, object]:
        """Writes the given state, or that of the model."""
        return super().save(self._model.state_dict() if content is None else content)


class SharedMemoryLoader(_Expiring):
    """Stores data in shared memory, for processes of one machine.

    Args:
        ttl: Seconds after which the process that stored data removes them.
    """

    def __init__(self, ttl: float = 20.0) -> None:
        super().__init__(ttl)

    def save(self, content: object) -> Mapping[str, object]:
        """Copies data to a block of shared memory."""
        pieces = encode(content)
        size = size_of(pieces)
        block = shared_memory.SharedMemory(create=True, size=size)
        at = 0
        assert block.buf is not None
        for piece in pieces:
            view = memoryview(piece).cast("B")
            block.buf[at : at + len(view)] = view
            at += len(view)
        self._note(block)
        return {"block": block.name, "size": size}

    def load(self, handle: Mapping[str, Any]) -> Any:
        """Copies the data of a block."""
        name, size = str(handle["block"]), int(handle["size"])
        if Path(name).name != name:  # it comes from another process
            raise UsageError(f"not the name of a block of shared memory: {name!r}")
        if _SHM.is_dir():  # to attach would remove it when this process ends (python/cpython#82300)
            return unpack((_SHM / name).read_bytes()[:size])
        block = shared_memory.SharedMemory(name=name)
        try:
            assert block.buf is not None
            return unpack(bytes(block.buf[:size]))
        finally:
            block.close()

    def _remove(self, item: shared_memory.SharedMemory) -> None:
        item.close()
        with contextlib.suppress(FileNotFoundError):
            item.unlink()
