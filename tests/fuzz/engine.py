"""Feeds damaged bytes to a parser: each gives a right value or an error of dicore, nothing else.

A target is what a parser reads, written by dicore itself, and a function that reads it. The bytes
are damaged in ways that find the seams of parsers: bits, lengths, numbers, types, nesting, ends.
`make test` tries a few of each target, always the same ones; a soak tries thousands.
"""

from __future__ import annotations

import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dicore.errors import DicoreError
from tests.soak import SOAK

ROUNDS = 2_000 if SOAK else 25
"""Inputs of a target."""
_LONGEST_S = 5.0
"""Time after which an input counts as a hang, on a loaded machine too."""
_MOST_BYTES = 64 << 20
"""What reading a few kilobytes may allocate at most."""
_PIECES = (
    *(b"", b"\x00", b"\xff", b"\n", b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"true"),
    *(b"NaN", b"-1", b"0", b"1e999", b"9" * 30, b"-9223372036854775809", b"[" * 3_000),
    *(b"../../x", b"\xed\xa0\x80", b'"\\ud800"', b'{"a":' * 1_500, b"\x80\x04cos\nsystem\n"),
    *(b"__class__", b"&a [*a,*a]", b"!!python/object/apply:os.system ['true']", b"\xff" * 8),
)
_FORBIDDEN = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "pickle.find_class",
              "socket.connect")  # fmt: skip
"""What no input may cause: audit events of running code and of the network."""
_watched: list[str] | None = None


def _audit(event: str, _: tuple[Any, ...]) -> None:
    if _watched is not None and event in _FORBIDDEN:
        _watched.append(event)


sys.addaudithook(_audit)


def damaged(good: bytes, seed: int) -> bytes:
    """Returns bytes that were good, after one to four changes."""
    rng = random.Random(seed)
    data = bytearray(good)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        end = min(end, at + rng.choice((1, 8, 64)))
        match rng.randrange(6):
            case 0 if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            case 1:
                del data[at:]
            case 2:
                data[at:end] = rng.randbytes(end - at)
            case 3:
                data[at:at] = data[at:end] * rng.choice((1, 2, 50))
            case 4:
                _exchange_word(data, rng)
            case _:
                data[at:end] = rng.choice(_PIECES)
    return bytes(data)


def _exchange_word(data: bytearray, rng: random.Random) -> None:
    """Exchanges a number or a text of JSON for something else: damage that parsers get through."""
    import re

    words = list(re.finditer(rb'"[^"\n]{0,40}"|-?\d+(?:\.\d+)?', data))
    if words:
        one = rng.choice(words)
        others = (*_PIECES[:20], rng.choice(words)[0], b'"x"', b"[]", b"{}", b"[[1]]", b"-0.5")
        data[one.start() : one.end()] = rng.choice(others)


@contextmanager
def _watching() -> Iterator[list[str]]:
    global _watched  # noqa: PLW0603 - an audit hook stays for good
    _watched = seen = []
    tracemalloc.start()
    try:
        yield seen
    finally:
        tracemalloc.stop()
        _watched = None


def fuzz(good: bytes, read: Callable[[bytes], object], rounds: int = ROUNDS) -> None:
    """Reads good bytes, then damaged ones; fails with the input that does what it must not.

    Args:
        good: What dicore wrote.
        read: Reads bytes as dicore does.
        rounds: Inputs.
    """
    read(good)  # also imports what it needs
    for seed in range(rounds):
        data = damaged(good, seed)
        began = time.monotonic()
        with _watching() as seen:
            problem = _problem(read, data)
            peak = tracemalloc.get_traced_memory()[1]
        if problem.startswith("MemoryError") or peak > _MOST_BYTES:
            problem = f"allocates {peak >> 20} MiB"
        if time.monotonic() - began > _LONGEST_S:
            problem = f"takes {time.monotonic() - began:.0f} s"
        if seen:
            problem = f"runs {seen}"
        if problem:
            pytest.fail(f"seed {seed}, {data[:300]!r}: {problem}")


def _problem(read: Callable[[bytes], object], data: bytes) -> str:
    try:
        read(data)
    except DicoreError:
        return ""
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error}"
    return ""
