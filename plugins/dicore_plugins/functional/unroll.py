"""Splitting a trajectory into sequences of equal length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from dicore.data import Columns, Row, Tree
from dicore.data.tree import is_tensor
from dicore.errors import UsageError


def get_train_sample(
    data: Sequence[Mapping[str, Tree]],
    unroll_len: int,
    last_fn_type: Literal["last", "drop", "null_padding"] = "last",
    null_transition: Mapping[str, Tree] | None = None,
) -> list[Row]:
    """Splits T transitions into sequences of `unroll_len` steps, each a dict of lists.

    A remainder shorter than `unroll_len` is dropped (`drop`), extended at the front by the steps
    before it (`last`), or padded at the end with null transitions (`null_padding`; also `last` if
    there are no steps before it). Except with `drop`, each sequence has a list `null` of bools:
    True for padding.

    Args:
        data: T rows in time order; nested dicts become nested dicts of lists.
        unroll_len: Steps of a sequence; 1 returns the rows unchanged.
        last_fn_type: Treatment of the remainder.
        null_transition: Values of the padding, which default to the first step of the remainder
            with done=True, reward 0 and value_gamma 0.

    Returns:
        The sequences in time order.

    Raises:
        UsageError: unroll_len is below 1 or `last_fn_type` is unknown.
    """
    if unroll_len < 1:
        raise UsageError(f"unroll_len must be >= 1, got {unroll_len}")
    if last_fn_type not in ("last", "drop", "null_padding"):
        raise UsageError(
            f"unknown last_fn_type '{last_fn_type}'; expected last, drop, null_padding"
        )
    if unroll_len == 1:
        return [dict(row) for row in data]
    if last_fn_type == "drop":
        rows = [dict(row) for row in data]
    else:
        rows = [{**row, "null": False} for row in data]
    complete = len(rows) - len(rows) % unroll_len
    sequences = [rows[start : start + unroll_len] for start in range(0, complete, unroll_len)]
    remainder = rows[complete:]
    if remainder and last_fn_type != "drop":
        if last_fn_type == "last" and complete:
            sequences.append(rows[-unroll_len:])
        else:
            padding = _null(remainder[0], null_transition)
            sequences.append(remainder + [padding] * (unroll_len - len(remainder)))
    return [_columns(sequence) for sequence in sequences]


def _null(like: Mapping[str, Tree], given: Mapping[str, Tree] | None) -> Columns:
    """Returns a padding transition with the shapes of `like`."""
    row = {**like, "done": _full(like.get("done"), one=True)}
    row["reward"] = _full(like.get("reward", 0.0), one=False)
    if "value_gamma" in like:
        row["value_gamma"] = _full(like["value_gamma"], one=False)
    return {**row, **(given or {}), "null": True}


def _full(like: Tree, *, one: bool) -> Tree:
    """Returns ones or zeros of the type, dtype and shape of `like`."""
    if is_tensor(like):
        return like.new_full(like.shape, one)
    if isinstance(like, np.ndarray | np.generic):
        return np.full_like(like, one)
    return (bool if like is None else type(like))(one)


def _columns(rows: Sequence[Mapping[str, Tree]]) -> Columns:
    """Converts a list of (nested) dicts to a dict of lists."""
    return {
        key: _columns([row[key] for row in rows])
        if isinstance(value, Mapping)
        else [row[key] for row in rows]
        for key, value in rows[0].items()
    }
