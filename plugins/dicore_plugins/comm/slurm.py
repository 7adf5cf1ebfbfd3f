"""Slurm: host lists such as `10-10-10-[11-12]`, and what the variables of a job say."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dicore.errors import UsageError

__all__ = ["ditask_options", "hosts_of"]

_MOST_HOSTS: Final = 100_000
_DEFAULT_PORT: Final = 50515
_LAST_PORT: Final = 65535


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


def ditask_options(
    variables: Mapping[str, str] | None = None, first_port: Sequence[int] | None = None
) -> dict[str, Any]:
    """Returns the arguments of `Parallel.runner` for one task of a Slurm job step.

    Task 0 is the first process; the others attach to it. All need the same `DICORE_TOKEN`.

    Args:
        variables: `SLURM_PROCID`, `SLURM_NODEID`, `SLURM_STEP_NODELIST` or `SLURM_JOB_NODELIST`;
            None: those of this process.
        first_port: Port of task 0; task i takes the i-th after it. None: 50515.

    Raises:
        UsageError: this process is not part of a Slurm job.
    """
    found = os.environ if variables is None else variables
    nodes = found.get("SLURM_STEP_NODELIST") or found.get("SLURM_JOB_NODELIST")
    number, node = found.get("SLURM_PROCID", ""), found.get("SLURM_NODEID", "")
    if not nodes or not number.isdecimal() or not node.isdecimal():
        raise UsageError(
            "SLURM_PROCID, SLURM_NODEID or SLURM_JOB_NODELIST is not set",
            hint="start the command by srun, or choose --platform local",
        )
    hosts, port = hosts_of(nodes), (first_port or [_DEFAULT_PORT])[0]
    mine = int(number)
    if int(node) >= len(hosts):
        raise UsageError(f"SLURM_NODEID={node}, but the job has {len(hosts)} nodes: {nodes}")
    if port + mine > _LAST_PORT:
        raise UsageError(f"--ports {port}: task {mine} would take {port + mine} > {_LAST_PORT}")
    return {
        "protocol": "tcp",
        "address": hosts[int(node)],
        "ports": [port + mine],
        "node_ids": [mine],
        "attach_to": [f"tcp://{hosts[0]}:{port}"] if mine else None,
    }
