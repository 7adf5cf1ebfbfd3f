"""Messages as bytes: a JSON header and raw arrays; nothing is pickled, reading runs no code.

A message is a state as in checkpoints (None, numbers, strings, lists, tuples, dicts, arrays,
tensors), in which `Batch` objects may stand. Layout, integers in network byte order:

    magic 4 bytes | length of the header u32 | length of the body u64 | header | body
"""

from __future__ import annotations

import hmac
import json
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from dicore.data import Batch, Tree
from dicore.data.json_codec import Block, decode_state, encode_state
from dicore.errors import CheckpointError, CheckpointWriteError, DicoreError, UsageError
from dicore.run.atomic import read_regular
from dicore_plugins.private import opener, private_folder

__all__ = ["FrameError", "decode", "encode", "load_file", "save_file"]

MAGIC: Final = b"dcF1"
PREFIX: Final = struct.Struct("!4sIQ")
MAX_HEADER: Final = 16 << 20
MAX_BODY: Final = 4 << 30

_BATCH: Final = "__batch__"
_DIGEST_SIZE: Final = 32
_MOST_BYTES: Final = PREFIX.size + MAX_HEADER + MAX_BODY + _DIGEST_SIZE


class FrameError(DicoreError, ValueError):
    """Received bytes are not a valid message."""


def encode(message: object) -> list[bytes | memoryview]:
    """Returns the pieces of a message; arrays are not copied.

    Raises:
        UsageError: the message holds an object that is not data; the text names its place.
    """
    try:
        skeleton, found = encode_state(_without_batches(message))
        blocks = dict(sorted(found.items(), key=lambda item: -_width(item[1])))  # aligns all
        names = [[name, block.code, block.data.nbytes] for name, block in blocks.items()]
        header = json.dumps([skeleton, names], allow_nan=False, separators=(",", ":")).encode()
    except (CheckpointError, ValueError) as error:
        raise UsageError(
            f"cannot be sent to another process: {getattr(error, 'message', error)}",
            hint="send numbers, strings, arrays, tensors, a Batch, and dicts or lists of them",
        ) from error
    size = sum(block.data.nbytes for block in blocks.values())
    if len(header) > MAX_HEADER or size > MAX_BODY:
        raise UsageError(
            f"a message of {len(header)} + {size} bytes is too large",
            hint=f"at most {MAX_HEADER >> 20} MiB of values and {MAX_BODY >> 30} GiB of arrays",
        )
    return [PREFIX.pack(MAGIC, len(header), size), header, *(each.data for each in blocks.values())]


def _width(block: Block) -> int:
    return block.data.nbytes // max(prod(block.shape), 1)


def lengths(
    prefix: bytes, *, max_header: int = MAX_HEADER, max_body: int = MAX_BODY
) -> tuple[int, int]:
    """Returns the lengths of header and body that a prefix announces; `FrameError` if too large."""
    magic, header, body = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise FrameError(f"not a message of dicore: it begins with {prefix[:4]!r}")
    if header > max_header or body > max_body:
        raise FrameError(f"a message of {header} + {body} bytes is too large")
    return header, body


def decode(header: bytes | bytearray | memoryview, body: bytearray) -> Tree:
    """Restores a message; arrays are views of `body`.

    Raises:
        FrameError: the bytes are not a valid message.
    """
    try:
        skeleton, names = json.loads(bytes(header))
        return _with_batches(decode_state(skeleton, _blocks(names, memoryview(body))))
    except FrameError:
        raise
    except Exception as error:  # a header can lie in many ways
        raise FrameError(f"a message cannot be read: {error!r}"[:500]) from None


def _blocks(names: Iterable[tuple[str, str, int]], view: memoryview) -> dict[str, tuple[str, Any]]:
    """Cuts a body into the blocks that a header names."""
    blocks: dict[str, tuple[str, Any]] = {}
    at = 0
    for name, code, size in names:
        if type(size) is not int or not 0 <= size <= len(view) - at:
            raise FrameError(f"block '{name}' has {size} bytes, {len(view) - at} are left")
        blocks[str(name)] = str(code), view[at : at + size]
        at += size
    if at != len(view):
        raise FrameError(f"{len(view) - at} bytes belong to no block")
    return blocks


def pack(message: object) -> bytes:
    """Returns a message as one byte string."""
    return b"".join(encode(message))


def unpack(data: bytes | bytearray) -> Tree:
    """Restores what `pack` returned; raises like `decode`."""
    if len(data) < PREFIX.size:
        raise FrameError(f"a message of {len(data)} bytes is too short")
    header, body = lengths(bytes(data[: PREFIX.size]))
    start = PREFIX.size + header
    if len(data) != start + body:
        raise FrameError(f"a message of {start + body} bytes has {len(data)}")
    return decode(data[PREFIX.size : start], bytearray(data[start:]))


def save_file(path: Path, message: object, key: bytes = b"") -> None:
    """Writes a message and its checksum; the file appears complete or not at all.

    It is for this user only.

    Args:
        path: The file.
        message: Plain data.
        key: Who has it can check that the file was written, under this name, by one who has it.
    """
    pieces = encode(message)
    digest = _checksum(path, key)
    for piece in pieces:
        digest.update(piece)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        private_folder(path.parent)
        part.unlink(missing_ok=True)
        with open(part, "xb", opener=opener) as file:
            file.writelines((*pieces, digest.digest()))
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise CheckpointWriteError(
            f"{path}: cannot be written: {error.strerror}",
            hint="choose a folder on a file system that all processes share (system.path_data)",
        ) from error


def load_file(path: Path, key: bytes = b"") -> Tree:
    """Reads what `save_file` wrote with the same key, after checking every byte.

    Raises:
        FrameError: the file is cut off or was changed.
        FileNotFoundError: there is no such file.
    """
    try:
        data = bytearray(read_regular(path, at_most=_MOST_BYTES))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FrameError(f"{path}: cannot be read: {error.strerror}") from None
    content, seal = memoryview(data)[:-_DIGEST_SIZE], bytes(data[-_DIGEST_SIZE:])
    digest = _checksum(path, key)
    digest.update(content)
    if len(data) < PREFIX.size + _DIGEST_SIZE or not hmac.compare_digest(digest.digest(), seal):
        other = ", or written with another token" if key else ""
        raise FrameError(f"{path}: cut off or changed{other}: the checksum differs")
    header, body = lengths(bytes(content[: PREFIX.size]))
    start = PREFIX.size + header
    if len(content) != start + body:
        raise FrameError(f"{path}: {len(content)} bytes, expected {start + body}")
    return decode(content[PREFIX.size : start], bytearray(content[start:]))


def _checksum(path: Path, key: bytes) -> blake2b:
    """Returns the beginning of a checksum; with a key, it holds for one name of a file."""
    digest = blake2b(digest_size=_DIGEST_SIZE, key=blake2b(key).digest() if key else b"")
    if key:
        digest.update(path.name.encode())
    return digest


def _without_batches(value: Tree) -> Tree:
    """Replaces each `Batch` by a dict of its columns."""
    if isinstance(value, Batch):
        columns = {key: _array(each) for key, each in value.items()}
        return {_BATCH: [len(value), columns]}
    if isinstance(value, Mapping):
        if _BATCH in value:
            raise ValueError(f"a dict has the reserved key {_BATCH}")
        return {key: _without_batches(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_without_batches(each) for each in value)
    return value


def _array(column: Tree) -> Tree:
    """Returns a column whose memory is plain; array-likes such as frame stacks are copied."""
    if isinstance(column, Mapping):
        return {key: _array(each) for key, each in column.items()}
    if isinstance(column, list | tuple):
        return type(column)(map(_array, column))
    if hasattr(column, "detach"):
        return column
    return np.asarray(column)


def _with_batches(value: Tree) -> Tree:
    """Undoes `_without_batches`."""
    if type(value) is dict:
        if value.keys() == {_BATCH}:
            length, columns = value[_BATCH]
            batch = Batch(columns)
            if len(batch) != length:
                raise FrameError(f"a batch of {length} samples has columns of {len(batch)}")
            return batch
        return {key: _with_batches(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_with_batches(each) for each in value)
    return value


def size_of(pieces: Sequence[bytes | memoryview]) -> int:
    """Returns the number of bytes of the pieces of a message."""
    return sum(memoryview(piece).nbytes for piece in pieces)
