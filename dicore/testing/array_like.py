"""A column that is no array, but that NumPy takes as one, as stacks of shared frames are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dicore.values import Tree

if TYPE_CHECKING:
    from dicore.data.tree import Array, Index

__all__ = ["ArrayLike"]


class ArrayLike:
    """Wraps an array; indexing returns arrays.

    Args:
        array: What `np.asarray` returns a copy of.
    """

    def __init__(self, array: npt.NDArray[Tree]) -> None:
        self._array = array
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._array, dtype)

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, index: Index) -> object:
        return self._array[index]
