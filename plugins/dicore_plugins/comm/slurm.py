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
    variables: Mapping[str, str] | None = None,
    first_port: Sequence[int] | None = None,
    topology: str = "mesh",
) -> dict[str, Any]:
    """Returns the arguments of `Parallel.runner` for one task of a Slurm job step.

    Task 0 is the first process; each attaches to all before it, or (`star`) to the first. All need
    the same `DICORE_TOKEN`.

    Args:
        variables: `SLURM_PROCID`, `SLURM_NODEID`, `SLURM_STEP_NODELIST` or `SLURM_JOB_NODELIST`,
            and for `mesh` `SLURM_STEP_TASKS_PER_NODE` or `SLURM_TASKS_PER_NODE`; None: those of
            this process.
        first_port: Port of task 0; task i takes the i-th after it. None: 50515.
        topology: `mesh`, `star` or `alone`.

    Raises:
        UsageError: this process is not part of a Slurm job, or for `mesh`, the variables do not
            tell the nodes of the tasks.
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
    before = {"mesh": mine, "star": min(mine, 1), "alone": 0}[topology]
    nodes_of = _nodes_of_tasks(found, len(hosts), mine, int(node)) if before > 1 else [0]
    known = [f"tcp://{hosts[nodes_of[task]]}:{port + task}" for task in range(before)]
    return {
        "protocol": "tcp",
        "address": hosts[int(node)],
        "ports": [port + mine],
        "node_ids": [mine],
        "attach_to": known or None,
    }


def _nodes_of_tasks(found: Mapping[str, str], nodes: int, mine: int, node: int) -> list[int]:
    """Returns the number of the node of each task, by how Slurm distributes them.

    Raises:
        UsageError: the variables do not tell, or contradict where this task is.
    """
    text = found.get("SLURM_STEP_TASKS_PER_NODE") or found.get("SLURM_TASKS_PER_NODE") or ""
    counts: list[int] = []
    for each in text.split(",") if text else ():
        part = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", each.strip())
        counts += [int(part[1])] * int(part[2] or 1) if part else []
    if found.get("SLURM_DISTRIBUTION", "block").startswith("cyclic"):
        rounds = range(max(counts, default=0))
        tasks = [at for turn in rounds for at, count in enumerate(counts) if count > turn]
    else:
        tasks = [at for at, count in enumerate(counts) for _ in range(count)]
    if len(counts) != nodes or mine >= len(tasks) or tasks[mine] != node:
        raise UsageError(
            f"the variables of Slurm do not tell on which nodes the tasks before {mine} are",
            hint="choose --topology star: all tasks attach to the first one",
        )
    return tasks
