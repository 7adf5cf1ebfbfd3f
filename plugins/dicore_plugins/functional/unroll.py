"""Splitting a trajectory into pieces of equal length, for training on sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from dicore.data.tree import is_tensor
from dicore.errors import UsageError


def get_train_sample(
    data: Sequence[Mapping[str, Any]],
    unroll_len: int,
    last_fn_type: Literal["last", "drop", "null_padding"] = "last",
    null_transition: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Splits T transitions into pieces of `unroll_len`; each becomes a dict of lists.

    A rest shorter than `unroll_len` is dropped (`drop`), filled up in front with the steps before
    it (`last`), or filled up behind with null transitions (`null_padding`; also `last`, where there
    are no steps before it). Except with `drop`, each piece has a list `null` of bools: True for a
    filler.

    Args:
        data: T rows in order of time; nested dicts become nested dicts of lists.
        unroll_len: Steps in a piece; 1 returns the rows as they are.
        last_fn_type: What becomes of the rest.
        null_transition: Values of the fillers, over those of the first step of the rest with
            done=True, reward 0 and value_gamma 0.

    Returns:
        The pieces in order of time.

    Raises:
        UsageError: unroll_len is below 1 or `last_fn_type` is unknown.
    """
    if unroll_len < 1:
        raise UsageError(f"unroll_len must be >= 1, got {unroll_len}")
    if last_fn_type not in ("last", "drop", "null_padding"):
        raise UsageError(
            f"no way to treat the rest is named '{last_fn_type}'",
            hint="one of last, drop, null_padding",
        )
    if unroll_len == 1:
        return [dict(row) for row in data]
    if last_fn_type == "drop":
        rows = [dict(row) for row in data]
    else:
        rows = [{**row, "null": False} for row in data]
    whole = len(rows) - len(rows) % unroll_len
    pieces = [rows[start : start + unroll_len] for start in range(0, whole, unroll_len)]
    rest = rows[whole:]
    if rest and last_fn_type != "drop":
        if last_fn_type == "last" and whole:
            pieces.append(rows[-unroll_len:])
        else:
            filler = _null(rest[0], null_transition)
            pieces.append(rest + [filler] * (unroll_len - len(rest)))
    return [_columns(piece) for piece in pieces]


def _null(like: Mapping[str, Any], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns a transition that counts for nothing, with the shapes of `like`."""
    row = {**like, "done": _full(like.get("done"), one=True)}
    row["reward"] = _full(like.get("reward", 0.0), one=False)
    if "value_gamma" in like:
        row["value_gamma"] = _full(like["value_gamma"], one=False)
    return {**row, **(given or {}), "null": True}


def _full(like: Any, *, one: bool) -> Any:
    """Returns ones or zeros of the type, dtype and shape of `like`."""
    if is_tensor(like):
        return like.new_full(like.shape, one)
    if isinstance(like, np.ndarray | np.generic):
        return np.full_like(like, one)
    return (bool if like is None else type(like))(one)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Turns a list of dicts into a dict of lists, nested dicts too."""
    return {
        key: _columns([row[key] for row in rows])
        if isinstance(value, Mapping)
        else [row[key] for row in rows]
        for key, value in rows[0].items()
    }
