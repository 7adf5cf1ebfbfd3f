"""Slurm: host lists such as `10-10-10-[11-12]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dicore.errors import UsageError

__all__ = ["hosts_of"]

_MOST_HOSTS: Final = 100_000


def hosts_of(text: str) -> list[str]:
    """Expands a host list: `a,b`, `node-[1-3,07]-x`, `10-10-10-[11-12]`.

    Raises:
        UsageError: brackets do not match, or a range is not one.
    """
    hosts = [host for part in _parts(text) for host in _expanded(part, text)]
    if not hosts:
        raise UsageError(f"not a list of hosts: {text!r}")
    return hosts


def _parts(text: str) -> Iterator[str]:
    """Splits at commas outside of brackets."""
    depth, part = 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        ends = letter == "," and depth == 0
        if depth not in (0, 1) or (ends and not part.strip()):
            raise UsageError(f"not a list of hosts: {text!r}")
        if ends:
            yield part.strip()
            part = ""
        else:
            part += letter
    if depth or not part.strip():
        raise UsageError(f"not a list of hosts: {text!r}")
    yield part.strip()


def _expanded(part: str, text: str) -> list[str]:
    found = re.search(r"\[([^]]*)\]", part)
    if found is None:
        return [part]
    tails = _expanded(part[found.end() :], text) if found.end() < len(part) else [""]
    numbers = [number for each in found[1].split(",") for number in _range(each, text)]
    hosts = [part[: found.start()] + number + tail for number in numbers for tail in tails]
    if len(hosts) > _MOST_HOSTS:
        raise UsageError(f"more than {_MOST_HOSTS} hosts: {text!r}")
    return hosts


def _range(each: str, text: str) -> list[str]:
    """Expands `1-3` or `007`; leading zeros are kept."""
    found = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", each)
    if found is None:
        raise UsageError(f"'{each}' in {text!r} is not a number or a range such as 11-12")
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first or last - first > _MOST_HOSTS:
        raise UsageError(f"'{each}' in {text!r} is not a range: its end is before its start")
    return [str(number).zfill(len(found[1])) for number in range(first, last + 1)]
