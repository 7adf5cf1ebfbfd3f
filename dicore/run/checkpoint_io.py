"""One checkpoint: a folder of `tensors.safetensors` and `manifest.json`; reading runs no code.

The manifest holds the format's version, the versions of the packages that wrote it, size and sha256
of the tensor file, and the skeleton of the state (`json_codec`). Its last member is the sha256 of
all bytes before it, which detects every flipped bit.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import struct
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EINVAL, ELOOP
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np

from dicore import __version__
from dicore.data.json_codec import Block, Json, decode_state, encode_state
from dicore.data.tree import loaded_torch
from dicore.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointUnsafeError,
    CheckpointVersionError,
    CheckpointWriteError,
    DicoreError,
)
from dicore.run.atomic import (
    Stamp,
    open_regular,
    recover_one,
    replace_folder,
    stamp,
    temporary,
    write_synced,
)
from dicore.run.memory import available_bytes
from dicore_registry.explain import brief

__all__ = [
    "FORMAT_VERSION", "Copies", "Manifest", "Pieces", "encoded", "read_manifest", "read_state",
    "stamps", "verify", "write_encoded", "write_state",
]  # fmt: skip

FORMAT_VERSION: Final = 1
"""Incremented when older versions of dicore cannot read what this version writes."""

MANIFEST: Final = "manifest.json"
TENSORS: Final = "tensors.safetensors"

_MAX_MANIFEST_BYTES = 64 << 20
_MAX_HEADER_BYTES = 64 << 20
_CHECK_MEMORY_BYTES = 256 << 20
_CHUNK_BYTES = 16 << 20
_COPY_THREADS = 4
_SEAL = ',"sha256":"%s"}'
_CHANGED = "checksum mismatch: %s was changed or truncated"
_SEAL_LENGTH = len(_SEAL % ("0" * 64))


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a checkpoint; `metadata` has `train_iter`, `env_step`, `config_sha256`."""

    format_version: int
    versions: Mapping[str, str | None]
    metadata: Mapping[str, Any]
    size: int
    sha256: str
    skeleton: Any


Pieces: TypeAlias = "list[bytes | memoryview]"
"""The bytes of a tensor file, in their order."""


def write_state(
    path: Path, state: Mapping[str, object], metadata: Mapping[str, object] | None = None
) -> list[Stamp | None]:
    """Writes a state as a folder, atomically; an existing folder is replaced.

    Returns the stamps of its files; `stamps` returns the same until a file is changed. After a
    `CheckpointWriteError` (unsupported value, full disk) an existing folder is unchanged.
    """
    return write_encoded(path, *encoded(state), metadata or {})


def encoded(state: Mapping[str, object]) -> tuple[object, Pieces]:
    """Returns the skeleton of a state, which shares nothing with it, and views of its arrays."""
    skeleton, blocks = encode_state(dict(state))
    return skeleton, list(_safetensors(blocks))


def write_encoded(
    path: Path, skeleton: Any, pieces: Pieces, metadata: Mapping[str, Any]
) -> list[Stamp | None]:
    """Writes what `encoded` returned; see `write_state`."""
    unfinished = temporary(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        tensors = write_synced(unfinished / TENSORS, pieces)
        files = {TENSORS: {"size": tensors.size, "sha256": tensors.sha256}}
        manifest = _sealed(skeleton, dict(metadata), files)
        written = write_synced(unfinished / MANIFEST, (manifest,))
        replace_folder(unfinished, path)
    except BaseException as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        with suppress(OSError):
            recover_one(path)
        if not isinstance(error, OSError | ValueError):
            raise
        raise CheckpointWriteError(
            f"{path}: not written: {getattr(error, 'strerror', None) or error}",
            hint="free disk space or choose another folder; existing data there is unchanged",
            context={"path": str(path), "errno": getattr(error, "errno", None)},
        ) from error
    return [tensors.stamp, written.stamp]


class Copies:
    """Copies of states, one at a time, in memory that is kept, as new memory is slow to fill."""

    def __init__(self) -> None:
        self._chunks: list[np.ndarray[Any, np.dtype[np.uint8]]] = []

    def fit(self, size: int) -> bool:
        """Returns whether `size` bytes leave as much memory free; if not, gives its own back."""
        held, free = len(self._chunks) * _CHUNK_BYTES, available_bytes()
        if free is None or free + held < 2 * size:
            self._chunks = []
            return False
        return True

    def of(self, pieces: Pieces) -> Pieces:
        """Copies the bytes; the copy is valid until the next one."""
        copies: list[tuple[object, object]] = []
        number, at = 0, 0
        for piece in pieces:
            rest = np.frombuffer(piece, np.uint8) if len(piece) else np.empty(0, np.uint8)
            while rest.size:
                if number == len(self._chunks):
                    self._chunks.append(np.empty(_CHUNK_BYTES, np.uint8))
                room = self._chunks[number][at : at + rest.size]
                copies.append((room, rest[: room.size]))
                rest, end = rest[room.size :], at + room.size
                number, at = (number, end) if end < _CHUNK_BYTES else (number + 1, 0)
        with ThreadPoolExecutor(_COPY_THREADS) as threads:  # NumPy lets them run at the same time
            list(threads.map(lambda each: np.copyto(*each), copies))
        del self._chunks[number + 1 :]
        filled = self._chunks[:number] + ([self._chunks[number][:at]] if at else [])
        return [each.data for each in filled]


def stamps(path: Path) -> list[Stamp | None]:
    """Returns the stamps of a checkpoint's files."""
    return [stamp(path / name) for name in (TENSORS, MANIFEST)]


def read_state(path: str | Path) -> Any:
    """Reads what `write_state` wrote; verifies every byte before it is used.

    Tensors are returned as tensors on the CPU if torch is imported, else as arrays.

    Raises:
        CheckpointError: it does not exist, or is corrupt, unsafe, or of a newer dicore.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    with _corrupt(folder):
        return decode_state(manifest.skeleton, _read_blocks(folder, manifest))


def verify(path: str | Path) -> Manifest:
    """Verifies every byte of a checkpoint without loading it; raises like `read_state`."""
    folder = Path(path)
    manifest = read_manifest(folder)
    digest = sha256()
    with _open(folder / TENSORS) as file:
        _check_size(folder, manifest, os.fstat(file.fileno()).st_size)
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    _check(folder, _CHANGED % TENSORS, digest.hexdigest() == manifest.sha256)
    return manifest


def read_manifest(path: str | Path) -> Manifest:
    """Reads and verifies only the manifest; raises like `read_state`."""
    folder = Path(path)
    _check_kind(folder)
    with _open(folder / MANIFEST) as file:
        if os.fstat(file.fileno()).st_size > _MAX_MANIFEST_BYTES:
            raise CheckpointUnsafeError(
                f"{folder}: the manifest is over {_MAX_MANIFEST_BYTES >> 20} MiB"
            )
        raw = file.read()
    with _corrupt(folder):
        return _parsed(folder, raw)


@contextmanager
def _corrupt(folder: Path) -> Iterator[None]:
    """Makes any error of what a checkpoint holds a `CheckpointCorruptError`."""
    try:
        yield
    except DicoreError:
        raise
    except Exception as error:
        raise CheckpointCorruptError(f"{folder}: cannot be read: {brief(error)}") from error


def _parsed(folder: Path, raw: bytes) -> Manifest:
    body = json.loads(raw)
    if not isinstance(body, dict):
        raise CheckpointUnsafeError(f"{folder}: not a dicore checkpoint")
    version = body.get("format_version") if body.get("format") == "dicore-state" else None
    if isinstance(version, int) and version > FORMAT_VERSION:
        by = body.get("versions", {}).get("dicore", "a newer version")
        raise CheckpointVersionError(
            f"{folder}: format {version} is newer than this dicore reads ({FORMAT_VERSION})",
            hint=f"install dicore {by} or later",
        )
    seal = (_SEAL % sha256(raw[:-_SEAL_LENGTH]).hexdigest()).encode()
    _check(folder, _CHANGED % MANIFEST, raw[-_SEAL_LENGTH:] == seal)
    if version != FORMAT_VERSION:
        raise CheckpointUnsafeError(f"{folder}: not a dicore checkpoint")
    files = body.get("files")
    if not isinstance(files, dict) or list(files) != [TENSORS]:
        raise CheckpointUnsafeError(f"{folder}: the manifest lists files besides {TENSORS}")
    facts = body["facts"]
    for name in ("train_iter", "env_step"):
        if type(facts.get(name, 0)) is not int or facts.get(name, 0) < 0:
            raise ValueError(f"a valid {name}")
    return Manifest(
        format_version=body["format_version"],
        versions=dict(body["versions"]),
        metadata=facts,
        size=int(files[TENSORS]["size"]),
        sha256=str(files[TENSORS]["sha256"]),
        skeleton=body["state"],
    )


def _sealed(skeleton: Json, metadata: Mapping[str, object], files: Mapping[str, object]) -> bytes:
    torch = loaded_torch()
    body = {
        "format": "dicore-state",
        "format_version": FORMAT_VERSION,
        "versions": {
            "dicore": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": str(torch.__version__) if torch is not None else None,
        },
        "facts": metadata,
        "files": files,
        "state": skeleton,
    }
    text = json.dumps(body, allow_nan=False, separators=(",", ":"))[:-1].encode("ascii")
    if len(text) + _SEAL_LENGTH > _MAX_MANIFEST_BYTES:
        raise ValueError(f"plain values over {_MAX_MANIFEST_BYTES >> 20} MiB; use arrays")
    return text + (_SEAL % sha256(text).hexdigest()).encode("ascii")


def _safetensors(blocks: Mapping[str, Block]) -> Iterator[bytes | memoryview]:
    """Yields the pieces of a file in the format of https://github.com/huggingface/safetensors."""
    header: dict[str, object] = {}
    end = 0
    widths = {n: b.data.nbytes // max(prod(b.shape), 1) for n, b in blocks.items()}
    ordered = sorted(blocks.items(), key=lambda item: -widths[item[0]])  # aligns all of them
    for name, block in ordered:
        begin, end = end, end + block.data.nbytes
        header[name] = {"dtype": block.code, "shape": block.shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text)) + text
    for _, block in ordered:
        yield block.data


def _read_blocks(folder: Path, manifest: Manifest) -> dict[str, tuple[str, bytearray]]:
    import safetensors

    deserialize: Any = safetensors.deserialize  # the package gives no types
    with _open(folder / TENSORS) as file:
        size = os.fstat(file.fileno()).st_size
        _check_size(folder, manifest, size)
        _check_memory(folder, size)
        raw = file.read()
    _check(folder, _CHANGED % TENSORS, sha256(raw).hexdigest() == manifest.sha256)
    if len(raw) < 8 or struct.unpack("<Q", raw[:8])[0] > _MAX_HEADER_BYTES:
        raise CheckpointUnsafeError(f"{folder}: the header of {TENSORS} is too large")
    return {name: (spec["dtype"], spec["data"]) for name, spec in deserialize(raw)}


def _check_kind(folder: Path) -> None:
    if folder.is_symlink():
        raise CheckpointUnsafeError(f"{folder}: a symbolic link, not a checkpoint")
    if folder.suffix in (".npz", ".hdf5", ".h5") and folder.is_file():
        text = f"{folder}: a file of samples, and the folder of a data set is expected"
        raise CheckpointError(
            text,
            hint="give it to pipeline.dataset.path, or make a folder: dicore collect RUN -o FOLDER",
        )
    if folder.is_file():
        raise CheckpointUnsafeError(
            f"{folder}: a single file, which may hold pickled code; dicore does not unpickle",
            hint="pass the folder that holds manifest.json; of another library: import-weights",
        )
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such checkpoint")


def _open(file: Path) -> BinaryIO:
    try:
        return open_regular(file)
    except FileNotFoundError:
        raise CheckpointCorruptError(f"{file.parent}: {file.name} is missing") from None
    except OSError as error:
        if error.errno in (ELOOP, EINVAL):
            raise CheckpointUnsafeError(f"{file}: {error.strerror}") from None
        raise CheckpointError(f"{file}: cannot be read: {error.strerror}") from None


def _check(folder: Path, text: str, holds: bool) -> None:
    if not holds:
        raise CheckpointCorruptError(f"{folder}: {text}")


def _check_size(folder: Path, manifest: Manifest, size: int) -> None:
    text = f"{TENSORS} has {size} bytes, expected {manifest.size}"
    _check(folder, text, size == manifest.size)


def _check_memory(folder: Path, size: int) -> None:
    if size < _CHECK_MEMORY_BYTES:
        return
    free = available_bytes()
    if free is not None and 2 * size > free:
        raise CheckpointUnsafeError(
            f"{folder}: reading it needs {2 * size >> 20} MiB of memory; {free >> 20} MiB are free"
        )
