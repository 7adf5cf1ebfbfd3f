"""What a ring seldom needs: a check of the available memory, of large numbers, and debugging."""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from dicore.errors import DicoreError, ReplayCapacityError, SchemaError
from dicore.run.folder import RunLock

__all__ = [
    "available_bytes", "check_bytes", "check_memory", "check_range", "poison", "remove_abandoned",
    "row_bytes",
]  # fmt: skip

_CGROUP = Path("/sys/fs/cgroup")


def check_memory(needed: int, capacity: int) -> None:
    """Raises an error if a buffer cannot fit into the memory that is available.

    Args:
        needed: Bytes of the full buffer.
        capacity: Its capacity in samples.

    Raises:
        ReplayCapacityError: it needs more.
    """
    check_bytes(needed, capacity, available_bytes(), "of memory")


def check_bytes(
    needed: int, capacity: int, available: int | None, where: str, what: str = "samples"
) -> None:
    """Raises an error if a buffer needs more than what is available.

    Args:
        needed: Bytes of the full buffer.
        capacity: Its capacity in samples.
        available: Bytes available; None: unknown.
        where: What they are, for the message: `of memory`.
        what: What the capacity counts.

    Raises:
        ReplayCapacityError: it needs more.
    """
    if available is None or needed <= available:
        return
    fits = int(capacity * available / needed)
    raise ReplayCapacityError(
        f"{capacity} {what} need {needed / 2**30:.1f} GiB, but {available / 2**30:.1f} GiB"
        f" {where} are available",
        hint=f"set policy.other.replay_buffer.replay_buffer_size to {_rounded(fits)} or less",
        context={"needed_bytes": needed, "available_bytes": available},
    )


def row_bytes(arrays: list[Any]) -> int:
    """Returns the bytes that a sample of these columns needs in a ring; of stacks, one frame."""
    size, frames = 0, {}
    for array in arrays:
        one = array.dtype.itemsize * math.prod(array.shape[1:])
        if hasattr(array, "packed"):
            depth = array.numbers.shape[-1]
            frames[array.frame_shape, array.dtype] = one // depth
            one = 4 * depth
        size += one
    return size + sum(frames.values())


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


def check_range(names: list[str], arrays: list[Any]) -> None:
    """Raises SchemaError if a finite number of double precision is too large for float32."""
    for name, array in zip(names, arrays, strict=True):
        if array.dtype == np.float64:
            with np.errstate(over="ignore"):
                lost = np.isinf(np.asarray(array).astype(np.float32)) & np.isfinite(array)
            if lost.any():
                worst = np.asarray(array)[lost].ravel()[0]
                raise SchemaError(f"column '{name}': {worst:g} is too large for float32")


def remove_abandoned(folder: Path, prefix: str) -> None:
    """Removes folders that a process left when it died: those whose lock nobody holds."""
    for path in folder.glob(f"{prefix}*"):
        if not (path / ".lock").is_file():
            continue
        try:
            lock = RunLock(path)
        except DicoreError:  # in use
            continue
        shutil.rmtree(path, ignore_errors=True)
        lock.release()


def poison(dtype: np.dtype[Any]) -> Any:
    """Returns a value that cannot pass for data of this dtype."""
    if np.issubdtype(dtype, np.floating):
        return np.nan
    return True if dtype == np.bool_ else np.iinfo(dtype).max
