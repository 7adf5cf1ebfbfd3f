"""Small samples in one array, row after row: a draw reads one place in memory for each of them.

Shapes: N samples, `...` one sample.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dicore.data import Tree


__all__ = ["RowLayout"]

_MOST = 128
"""Bytes of a sample up to which this is faster than one array for each column."""


class RowLayout:
    """Where the columns of a sample are in its row.

    Args:
        shapes: Shape [...] of each column.
        dtypes: Dtype of each column.

    Attributes:
        size: Bytes of a row.
        fits: Whether samples are small numbers, for which it is made.
    """

    def __init__(self, shapes: list[tuple[int, ...]], dtypes: list[Any]) -> None:
        self._columns, at, widest = [], 0, 8
        for shape, given in zip(shapes, dtypes, strict=True):
            dtype = np.dtype(given)
            width = max(1, dtype.itemsize)
            at = -(-at // width) * width
            self._columns.append((at, shape, dtype))
            at += math.prod(shape) * dtype.itemsize
            widest = max(widest, width)
        self.size = -(-at // widest) * widest
        self.fits = self.size <= _MOST and all(d.kind in "biuf" for *_, d in self._columns)

    def columns(self, rows: Tree) -> list[Any]:
        """Returns the columns of rows uint8 [N, size] as views [N, ...]."""
        if not len(rows):
            return [np.empty((0, *shape), dtype) for _, shape, dtype in self._columns]
        found = []
        for at, shape, dtype in self._columns:
            inner = np.empty(shape, dtype).strides
            strides = rows.strides[0], *inner
            found.append(np.ndarray((len(rows), *shape), dtype, rows, at, strides))
        return found
