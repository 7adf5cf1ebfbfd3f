"""The memory that this process can still take."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["available_bytes"]

_CGROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int | None:
    """Returns the memory that this process can still allocate, without swap; None: unknown.

    It is the smaller of what the system and the control group (a container) have left.
    """
    limits = [each for each in (_of_system(), _of_group()) if each is not None]
    return min(limits, default=None)


def _of_system() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows
        return None


def _of_group() -> int | None:
    try:
        limit = int((_CGROUP / "memory.max").read_text(encoding="ascii"))
        used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
        stat = (_CGROUP / "memory.stat").read_text(encoding="ascii").split()
    except (OSError, ValueError):  # no group, or "max"
        return None
    cached = int(stat[stat.index("inactive_file") + 1]) if "inactive_file" in stat else 0
    return max(0, limit - used + cached)
