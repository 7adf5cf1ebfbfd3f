"""Files of records: each is the body of one sample, with its length and checksum.

A file is the magic bytes and the version, then records: a header (length of the payload, crc32 of
the payload, id) and the payload. The payload is the length of a JSON text, the text, and the bytes
of the arrays. Reading runs no code. A record that is not whole ends the file: what a crash left of
it is dropped.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dicore.data.json_codec import decode_state, encode_state
from dicore.errors import ReplayError
from dicore_registry.explain import brief

__all__ = ["VERSION", "Place", "packed", "read_record", "scan", "write_head"]

MAGIC = b"DICOREB"
VERSION = 1
"""Incremented when older versions of dicore cannot read what this version writes."""

_HEAD = len(MAGIC) + 1
_HEADER = struct.Struct("<QIq")
_LENGTH = struct.Struct("<I")


class Place(NamedTuple):
    """Where a record is.

    Args:
        file: Number of its file.
        offset: Of its header, in bytes.
        size: Of header and payload, in bytes.
    """

    file: int
    offset: int
    size: int


def write_head(handle: Any) -> None:
    """Writes the first bytes of a file of records."""
    handle.write(MAGIC + bytes([VERSION]))


def packed(body: Mapping[str, Any], number: int) -> bytes:
    """Returns the record of a body: nested dicts and lists of arrays, tensors and plain values.

    Raises:
        CheckpointWriteError: another type of value.
    """
    skeleton, blocks = encode_state(dict(body))
    table = [[name, block.code, block.data.nbytes] for name, block in blocks.items()]
    text = json.dumps({"body": skeleton, "blocks": table}, separators=(",", ":")).encode()
    parts: list[bytes | memoryview] = [_LENGTH.pack(len(text)), text]
    parts += [block.data.cast("B") for block in blocks.values()]
    payload = b"".join(parts)
    return _HEADER.pack(len(payload), zlib.crc32(payload), number) + payload


def read_record(path: Path, place: Place) -> dict[str, Any]:
    """Returns the body of a record.

    Raises:
        ReplayError: it is missing or was changed.
    """
    try:
        with path.open("rb") as file:
            file.seek(place.offset)
            record = file.read(place.size)
    except OSError as error:
        raise ReplayError(
            f"{path}: cannot be read: {error.strerror}", hint="the files of a buffer are its own"
        ) from error
    payload = _payload(record)
    if payload is None:
        raise ReplayError(
            f"{path}: the record at byte {place.offset} was changed or cut off (checksum)",
            hint="check the disk; the files of a buffer are its own",
        )
    return _body(payload, path)


def _payload(record: bytes) -> bytes | None:
    """Returns the payload of a whole record, or None."""
    if len(record) < _HEADER.size:
        return None
    length, crc, _ = _HEADER.unpack_from(record)
    payload = record[_HEADER.size : _HEADER.size + length]
    return payload if len(payload) == length and zlib.crc32(payload) == crc else None


def _body(payload: bytes, path: Path) -> dict[str, Any]:
    try:
        (length,) = _LENGTH.unpack_from(payload)
        start = _LENGTH.size + length
        described = json.loads(payload[_LENGTH.size : start])
        blocks = {}
        for name, code, size in described["blocks"]:
            blocks[name] = (code, bytearray(_part(payload, start, size, name)))
            start += size
        body: dict[str, Any] = dict(decode_state(described["body"], blocks).items())
    except Exception as error:  # a description can lie in many ways
        raise ReplayError(f"{path}: a record does not describe its data: {brief(error)}") from error
    return body


def _part(payload: bytes, start: int, size: int, name: str) -> bytes:
    """Returns a block; lengths that go back and forth would copy a small file many times."""
    if not 0 <= size <= len(payload) - start:
        raise ValueError(f"block '{name}' has {size} bytes, {len(payload) - start} are left")
    return payload[start : start + size]


def scan(path: Path, number: int) -> Iterator[tuple[int, Place]]:
    """Yields the id and the place of each whole record of a file; see `torn`.

    Args:
        path: The file.
        number: Its number, for the places.

    Raises:
        ReplayError: the file was written by a newer version.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
        if head[: len(MAGIC)] != MAGIC or len(head) < _HEAD:
            return
        if head[-1] > VERSION:
            raise ReplayError(
                f"{path}: version {head[-1]}; this dicore reads up to version {VERSION}",
                hint="update dicore-plugins, or choose another folder",
            )
        offset = _HEAD
        while True:
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size:
                return
            length, _, record_id = _HEADER.unpack(header)
            left = os.fstat(file.fileno()).st_size - offset - _HEADER.size
            if length > left:
                return
            if _payload(header + file.read(length)) is None:
                return
            yield record_id, Place(number, offset, _HEADER.size + length)
            offset += _HEADER.size + length


def is_ours(path: Path) -> bool:
    """Returns whether a file is a plain file with the first bytes of a file of records."""
    try:
        if path.is_symlink() or not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
    except OSError:
        return False
    return head == MAGIC[: len(head)]
