"""Memory with a name, which outlives a process that is killed; looked for in some processes only.

The names in `/dev/shm` are those of all programs of the machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import psutil

__all__ = ["named_memory"]


def named_memory(processes: Iterable[psutil.Process] | None = None) -> set[str]:
    """Returns what processes have mapped of `/dev/shm` that has a name still.

    Args:
        processes: None: this one and all that it started.
    """
    if processes is None:
        this = psutil.Process()
        processes = (this, *this.children(recursive=True))
    found: set[str] = set()
    for process in processes:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8").splitlines()
            shared = (line.split(maxsplit=5)[5] for line in lines if "/dev/shm/" in line)
            found |= {name for name in shared if not name.endswith("(deleted)")}
    return found
