"""Batch: samples stored as columns.

Shapes: B samples, `...` the shape of one sample's item.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, Sequence
from typing import Any, Self, overload

import numpy as np

from dicore.data.tree import Tree, to_tensor, tree_len, tree_map, tree_row, tree_stack
from dicore.errors import SchemaError

Row = dict[str, Any]


class Batch:
    """Samples as columns: arrays or tensors [B, ...], or nested dicts of them.

    `len(batch)` is B, `batch[3]` a row (a dict of views), `batch[2:5]` a Batch, `batch["obs"]` a
    column; iteration yields rows.

    Args:
        columns: The columns by name; not copied.
        length: B if the caller knows it; None: read off the columns, which are checked.
        schema: Any object that a producer shares among its batches of equal keys, dtypes and row
            shapes; consumers need to check only one of them.

    Raises:
        SchemaError: the columns do not share a leading axis.
    """

    __slots__ = ("_columns", "_length", "schema")

    def __init__(
        self, columns: dict[str, Tree], length: int | None = None, schema: object = None
    ) -> None:
        self._columns = columns
        self.schema = schema
        self._length = tree_len(columns) if length is None else length

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Self:
        """Stacks rows into columns; float64 becomes float32, other dtypes are kept.

        Raises:
            SchemaError: there are no rows, or a row differs from the first in keys or shapes.
        """
        return cls(tree_stack([dict(row) for row in rows]) if rows else {})

    @classmethod
    def concat(cls, batches: Sequence[Batch]) -> Self:
        """Concatenates batches of equal columns; a single batch is returned as it is."""
        if len(batches) == 1 and isinstance(batches[0], cls):
            return batches[0]
        if not batches:
            raise SchemaError("no batches to concatenate")
        first, *rest = (batch.columns for batch in batches)
        try:
            columns = tree_map(lambda *leaves: _join(leaves), first, *rest)
        except ValueError as error:
            raise SchemaError(f"cannot concatenate batches: {error}") from error
        return cls(columns, sum(len(batch) for batch in batches))

    @property
    def columns(self) -> dict[str, Tree]:
        """The columns by name; the dict of the batch itself."""
        return self._columns

    def keys(self) -> KeysView[str]:
        return self._columns.keys()

    def items(self) -> ItemsView[str, Tree]:
        return self._columns.items()

    def get(self, key: str, default: Any = None) -> Any:
        return self._columns.get(key, default)

    def rows(self) -> list[Row]:
        """Returns all rows as dicts of views, in order."""
        columns = self._columns
        if any(isinstance(column, dict | list | tuple) for column in columns.values()):
            return [tree_row(columns, index) for index in range(self._length)]
        keys = tuple(columns)
        return [
            dict(zip(keys, values, strict=True)) for values in zip(*columns.values(), strict=True)
        ]

    def map(self, fn: Callable[[Any], Any]) -> Batch:
        """Applies `fn` to every leaf of every column; `fn` must keep the leading axis."""
        return Batch(tree_map(fn, self._columns), self._length)

    def to_torch(self) -> Batch:
        """Returns the batch as tensors, which share memory on the CPU."""
        return self.map(to_tensor)

    def to(self, device: Any, *, non_blocking: bool = False) -> Batch:
        """Returns the batch as tensors on `device`."""
        return self.map(lambda leaf: to_tensor(leaf).to(device, non_blocking=non_blocking))

    def copy(self) -> Batch:
        """Returns a copy with memory of its own."""
        return self.map(lambda leaf: leaf.clone() if hasattr(leaf, "clone") else leaf.copy())

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: str) -> Any: ...
    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> Row: ...
    @overload
    def __getitem__(self, index: slice | np.ndarray[Any, Any]) -> Batch: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            try:
                return self._columns[index]
            except KeyError:
                has = ", ".join(self._columns)
                raise SchemaError(
                    f"a batch has no column '{index}'", hint=f"it has {has}"
                ) from None
        if isinstance(index, int | np.integer):
            if not -self._length <= index < self._length:
                raise IndexError(f"row {index} of a batch of {self._length}")
            return tree_row(self._columns, index)
        if isinstance(index, slice):
            length = len(range(*index.indices(self._length)))
            return Batch(tree_row(self._columns, index), length)
        return Batch(tree_row(self._columns, index))

    def __contains__(self, key: object) -> bool:
        return key in self._columns

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows())

    def __repr__(self) -> str:
        shapes = tree_map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", self._columns)
        return f"Batch({self._length} rows, {shapes})"


def _join(leaves: Sequence[Any]) -> Any:
    if isinstance(leaves[0], np.ndarray):
        return np.concatenate(leaves)
    from dicore.data.tree import loaded_torch

    torch = loaded_torch()
    assert torch is not None, "columns are arrays or tensors"
    return torch.cat(tuple(leaves))
