"""What the variables of a Slurm job say to `ditask`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dicore.errors import UsageError
from dicore_dist.links.slurm import hosts_of

__all__ = ["ditask_options"]

_DEFAULT_PORT: Final = 50515
_LAST_PORT: Final = 65535


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
