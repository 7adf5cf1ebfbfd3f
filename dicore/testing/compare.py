"""Compares results of components: nested states, columns, arrays and tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.values import Tree

if TYPE_CHECKING:
    from dicore.data.tree import Array

__all__ = ["array", "copied", "difference"]


def array(value: object) -> np.ndarray[Any, Any]:
    """Converts an array or a tensor (any device, with or without gradient) to an array."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value)


def copied(value: object) -> Tree:
    """Returns a deep copy of nested data."""
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copied(item) for item in value]
    return array(value).copy() if hasattr(value, "shape") else value


def difference(left: Any, right: object) -> str:
    """Returns the first difference of two nested values, bit by bit; "" if they are equal."""
    return next(_differences(left, right, ""), "")


def _differences(left: Any, right: object, path: str) -> Iterator[str]:
    here = path or "value"
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in dict.fromkeys([*left, *right]):
            if key not in left or key not in right:
                yield f"{here}: only one of the two has '{key}'"
            else:
                yield from _differences(left[key], right[key], f"{path}.{key}".lstrip("."))
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
        if len(left) != len(right):
            yield f"{here}: {len(left)} items and {len(right)} items"
        for index, (one, other) in enumerate(zip(left, right, strict=False)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif hasattr(left, "shape") or hasattr(right, "shape"):
        yield from _array_difference(array(left), array(right), here)
    elif left != right and not (left != left and right != right):  # noqa: PLR0124 - nan
        yield f"{here}: {left!r} and {right!r}"


def _array_difference(left: Array, right: Array, here: str) -> Iterator[str]:
    if left.dtype != right.dtype or left.shape != right.shape:
        yield f"{here}: {left.dtype}{list(left.shape)} and {right.dtype}{list(right.shape)}"
    elif not np.array_equal(left, right, equal_nan=left.dtype.kind in "fc"):
        yield f"{here}: values differ"
