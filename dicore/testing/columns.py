"""Holds columns that a component writes to the table of columns, and to those it declares."""

from __future__ import annotations

from dicore.interfaces.columns import COLUMNS, Column
from dicore.values import Columns

__all__ = ["column_problems"]

_KINDS = {"float": "f", "int": "iu", "bool": "b", "flag": "bf", "number": "fiub"}


def column_problems(columns: Columns, declared: tuple[Column, ...] | None, axes: int) -> list[str]:
    """Returns what is wrong with columns.

    Args:
        columns: Arrays, or trees of them.
        declared: Columns of the component beside those of the table; None: it declares none, and
            may write any.
        axes: Number of leading axes.
    """
    known = {column.name: column for column in (*COLUMNS, *(declared or ()))}
    problems = []
    for name, found in columns.items():
        column = known.get(name)
        if column is None:
            if declared is not None:
                problems.append(f"'{name}' is neither in COLUMNS nor declared by the component")
            continue
        dtype, shape = getattr(found, "dtype", None), getattr(found, "shape", None)
        if dtype is None or shape is None:
            if column.shape != "...":
                problems.append(f"'{name}' is a {type(found).__name__}, not an array")
            continue
        kinds, rank = _KINDS.get(column.dtype, ""), len(shape) - axes
        if kinds and dtype.kind not in kinds:
            problems.append(f"'{name}' has {dtype}, declared is {column.dtype}")
        if rank > {"": 0, "?": 1}.get(column.shape, rank):
            problems.append(f"'{name}' has items of shape {tuple(shape[axes:])}, one number fits")
    return problems
