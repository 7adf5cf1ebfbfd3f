"""What buffers seldom need: rows side by side, checks of memory, columns and states, debugging.

Shapes: N samples, `...` one sample.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dicore.data import Batch, State, Tree, tree_map
from dicore.errors import DicoreError, ReplayCapacityError, SchemaError, UsageError
from dicore.run.folder import RunLock
from dicore.run.memory import available_bytes

__all__ = [
    "Fact", "Form", "RowLayout", "available_bytes", "check_bytes", "check_entries", "check_kind",
    "check_memory", "check_numbers", "check_range", "check_room", "fitted", "poison",
    "remove_abandoned", "row_bytes", "verdict",
]  # fmt: skip

Fact = tuple[object, str]
"""What holds in a valid part, and what is wrong if it does not."""

Form = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape [...] and dtype of a column."""

_MOST = 128
"""Bytes of a sample up to which this is faster than one array for each column."""


class RowLayout:
    """Small samples in one array, row after row: a draw reads one place in memory for each.

    Args:
        forms: Shape [...] and dtype of each column.

    Attributes:
        size: Bytes of a row.
        fits: Whether samples are small numbers, for which it is made.
    """

    def __init__(self, forms: list[Form]) -> None:
        self._columns, at, widest = [], 0, 8
        for shape, dtype in forms:
            width = max(1, dtype.itemsize)
            at = -(-at // width) * width
            self._columns.append((at, shape, dtype))
            at += math.prod(shape) * dtype.itemsize
            widest = max(widest, width)
        self.size = -(-at // widest) * widest
        self.fits = self.size <= _MOST and all(d.kind in "biuf" for *_, d in self._columns)

    def columns(self, rows: Tree) -> list[Tree]:
        """Returns the columns of rows uint8 [N, size] as views [N, ...]."""
        if not len(rows):
            return [np.empty((0, *shape), dtype) for _, shape, dtype in self._columns]
        found = []
        for at, shape, dtype in self._columns:
            inner = np.empty(shape, dtype).strides
            strides = rows.strides[0], *inner
            found.append(np.ndarray((len(rows), *shape), dtype, rows, at, strides))
        return found


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


def row_bytes(arrays: list[Tree]) -> int:
    """Returns the bytes that a sample of these columns needs in a ring; of stacks, one frame."""
    size = 0
    frames: dict[Form, int] = {}
    for array in arrays:
        one = array.dtype.itemsize * math.prod(array.shape[1:])
        if hasattr(array, "packed"):
            depth = array.numbers.shape[-1]
            frames[array.frame_shape, array.dtype] = one // depth
            one = 4 * depth
        size += one
    return size + sum(frames.values())


def _rounded(count: int) -> int:
    """Rounds down to two digits."""
    step: int = 10 ** max(0, len(str(count)) - 2)
    return count // step * step


def check_numbers(columns: Mapping[str, Tree], names: list[str], arrays: list[Tree]) -> None:
    """Raises SchemaError unless there are columns, with names, of numbers that torch has, too."""
    if not names:
        raise SchemaError("the samples have no columns", hint="push dicts of numbers and arrays")
    for key in columns:
        if not isinstance(key, str):
            raise SchemaError(f"the column {key!r} has no name; expected a string")
    for name, array in zip(names, arrays, strict=True):
        dtype = array.dtype
        if dtype.kind not in "biufc" or dtype.char in "gG":  # long double
            what = "Python objects" if dtype.hasobject else dtype
            raise SchemaError(f"column '{name}' contains {what}; expected numbers")


def check_range(names: list[str], arrays: list[Tree]) -> None:
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


def check_kind(state: State, key: str, what: str) -> None:
    """Raises UsageError if a state, of another kind of buffer, has no entry `key`."""
    if key not in state:
        raise UsageError(
            f"the state is of a buffer that has no {what}",
            hint="load it into a buffer of the type that saved it",
        )


def check_entries(state: State, paths: Iterable[str]) -> None:
    """Raises SchemaError if a state lacks one of its entries, or entries of entries: `a.b`."""
    for path in paths:
        found: Any = state
        for key in path.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
        if found is None:
            raise SchemaError(
                f"the state of the buffer has no '{path}'", hint="load another checkpoint"
            )


def check_room(count: int, capacity: int, what: str) -> None:
    """Raises ReplayCapacityError if the `count` samples of a state are more than the capacity."""
    if count > capacity:
        raise ReplayCapacityError(
            f"the state has {count} {what}, the buffer's capacity is {capacity}",
            hint=f"set replay_buffer_size={count} or more",
        )


_BY_SLOT = {"use_times", "priority", "mass", "collect_iter"}
"""Entries of a state that have a value for each slot."""


def fitted(state: State, capacity: int) -> dict[str, Any]:
    """Returns a ring's state for a ring of `capacity` slots.

    The slots of a full ring stay as they are in a ring of the same capacity. In a larger one the
    oldest sample comes first, so that the free slots follow the newest.

    Raises:
        UsageError: it is not the state of a ring.
    """
    for key in ("cursor", "columns", "push_count"):
        check_kind(state, key, "columns of samples")
    cursor, columns = int(state["cursor"]), dict(state["columns"])
    held = len(Batch(columns)) if columns else 0
    if held == capacity or cursor >= held:
        return dict(state)
    by_age = np.roll(np.arange(held), -cursor)
    turned = {"columns": tree_map(lambda leaf: leaf[by_age], columns)}
    for key in _BY_SLOT & state.keys():
        turned[key] = np.asarray(state[key])[by_age]
    return {**state, **turned, "cursor": held}


def poison(dtype: np.dtype[Any]) -> Any:
    """Returns a value that cannot pass for data of this dtype."""
    if np.issubdtype(dtype, np.floating):
        return np.nan
    return True if dtype == np.bool_ else np.iinfo(dtype).max


def verdict(facts: Iterable[Fact]) -> tuple[bool, str]:
    """Returns False and what is wrong by the first fact that does not hold, or True and ""."""
    return next(((False, why) for holds, why in facts if not holds), (True, ""))
