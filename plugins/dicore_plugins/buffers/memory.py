"""Available memory, compared with what a buffer needs before it is allocated."""

from __future__ import annotations

import os
from pathlib import Path

from dicore.errors import ReplayCapacityError

__all__ = ["available_bytes", "check_memory"]

_CGROUP = Path("/sys/fs/cgroup")


def check_memory(needed: int, capacity: int) -> None:
    """Raises an error if a buffer cannot fit into the memory that is available.

    Args:
        needed: Bytes of the full buffer.
        capacity: Its capacity in samples.

    Raises:
        ReplayCapacityError: it needs more.
    """
    available = available_bytes()
    if available is None or needed <= available:
        return
    fits = int(capacity * available / needed)
    raise ReplayCapacityError(
        f"{capacity} samples need {needed / 2**30:.1f} GiB, but {available / 2**30:.1f} GiB of"
        " memory are available",
        hint=f"set policy.other.replay_buffer.replay_buffer_size to {_rounded(fits)} or less",
        context={"needed_bytes": needed, "available_bytes": available},
    )


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


def _rounded(count: int) -> int:
    """Rounds down to two digits."""
    step: int = 10 ** max(0, len(str(count)) - 2)
    return count // step * step
