"""Conversions of nested values: tensors, arrays, lists, devices, dtypes.

Containers (dicts, lists, tuples, named tuples) keep their type; inputs are not changed. A result
may share memory with its input.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from dicore.errors import SchemaError

if TYPE_CHECKING:
    from dicore.data import Tree


def to_tensor(
    item: Tree,
    dtype: torch.dtype | None = None,
    ignore_keys: Collection[str] = (),
    transform_scalar: bool = True,
) -> Any:
    """Converts arrays, numbers and lists of numbers to tensors; float64 becomes float32.

    bool, str, None and empty lists are returned unchanged.

    Args:
        item: A value or a nested structure.
        dtype: dtype of every tensor; None: that of the input, except for float64.
        ignore_keys: Dict keys whose values are not converted.
        transform_scalar: Convert single numbers to tensors of shape (), too.

    Raises:
        TypeError: the type of a value is not supported.
    """

    def leaf(value: Tree) -> Tree:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, torch.Tensor):
            return value if dtype is None else value.to(dtype)
        if isinstance(value, np.ndarray | np.generic):
            return _array_to_tensor(np.asarray(value), dtype)
        if isinstance(value, Number):
            return _array_to_tensor(np.asarray(value), dtype) if transform_scalar else value
        return NotImplemented

    def numbers(value: Sequence[Tree]) -> Tree:
        if len(value) and all(isinstance(item, Number) for item in value):
            return _array_to_tensor(np.asarray(value), dtype)
        return NotImplemented

    return _walk(item, leaf, "to_tensor", ignore_keys, numbers)


def _array_to_tensor(array: npt.NDArray[Any], dtype: torch.dtype | None) -> torch.Tensor:
    if array.dtype == np.float64 and dtype is None:
        array = array.astype(np.float32)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    tensor = torch.from_numpy(array)
    return tensor if dtype is None else tensor.to(dtype)


def to_device(item: Tree, device: str | torch.device, ignore_keys: Collection[str] = ()) -> Any:
    """Moves tensors and modules to a device; None, strings, numbers and arrays are unchanged.

    A module is moved in place and returned.

    Raises:
        TypeError: the type of a value is not supported.
    """

    def leaf(value: Tree) -> Tree:
        if isinstance(value, torch.Tensor | torch.nn.Module):
            return value.to(device)
        if value is None or isinstance(value, str | Number | np.ndarray | np.generic):
            return value
        return NotImplemented

    return _walk(item, leaf, "to_device", ignore_keys)


def to_ndarray(item: Tree, dtype: npt.DTypeLike | None = None) -> Any:
    """Converts tensors, numbers and lists of numbers to arrays; bool, str and None are unchanged.

    bfloat16, which NumPy does not have, becomes float32.

    Raises:
        TypeError: the type of a value is not supported.
    """

    def leaf(value: Tree) -> Tree:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu()
            value = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
        if isinstance(value, np.ndarray | np.generic | Number):
            return np.asarray(value, dtype)
        return NotImplemented

    def numbers(value: Sequence[Tree]) -> Tree:
        if len(value) and all(isinstance(item, Number) for item in value):
            return np.asarray(value, dtype)
        return NotImplemented

    return _walk(item, leaf, "to_ndarray", (), numbers)


def to_list(item: Tree) -> Any:
    """Converts tensors and arrays to (nested) lists of Python numbers; the rest is unchanged.

    Raises:
        TypeError: the type of a value is not supported.
    """

    def leaf(value: Tree) -> Tree:
        if isinstance(value, torch.Tensor | np.ndarray | np.generic):
            return value.tolist()
        if value is None or isinstance(value, str | Number):
            return value
        return NotImplemented

    return _walk(item, leaf, "to_list")


def tensor_to_list(item: Tree) -> Any:
    """Converts tensors to (nested) lists of Python numbers; the rest is unchanged, arrays too."""

    def leaf(value: Tree) -> Tree:
        return value.tolist() if isinstance(value, torch.Tensor) else value

    return _walk(item, leaf, "tensor_to_list")


def to_item(item: Tree, ignore_error: bool = True) -> Any:
    """Converts tensors and arrays of one element to Python numbers; the rest is unchanged.

    Args:
        item: A value or a nested structure.
        ignore_error: Return tensors and arrays of several elements unchanged.

    Raises:
        SchemaError: a value has several elements and `ignore_error` is False.
    """

    def leaf(value: Tree) -> Tree:
        if not isinstance(value, torch.Tensor | np.ndarray | np.generic):
            return value
        if int(np.prod(value.shape)) == 1:
            return value.item()
        if ignore_error:
            return value
        raise SchemaError(f"expected one element, got shape {tuple(value.shape)}")

    return _walk(item, leaf, "to_item")


def to_dtype(item: Tree, dtype: torch.dtype) -> Any:
    """Converts every tensor to `dtype`; the rest is unchanged."""

    def leaf(value: Tree) -> Tree:
        return value.to(dtype) if isinstance(value, torch.Tensor) else value

    return _walk(item, leaf, "to_dtype")


def same_shape(data: Sequence[Tree]) -> bool:
    """Returns whether all tensors or arrays have the same shape; True for none."""
    return len({tuple(item.shape) for item in data}) <= 1


def _walk(
    item: Tree,
    leaf: Callable[[Any], Any],
    name: str,
    ignore_keys: Collection[str] = (),
    numbers: Callable[[Sequence[Any]], Any] | None = None,
) -> Any:
    """Applies `leaf` below dicts and sequences; it returns NotImplemented for unknown types."""
    if isinstance(item, Mapping):
        return {
            key: value if key in ignore_keys else _walk(value, leaf, name, ignore_keys, numbers)
            for key, value in item.items()
        }
    if isinstance(item, list | tuple):
        if not hasattr(item, "_fields") and numbers is not None:
            joined = numbers(item)
            if joined is not NotImplemented:
                return joined
        parts = [_walk(value, leaf, name, ignore_keys, numbers) for value in item]
        if hasattr(item, "_replace"):
            named: Any = item
            return named._replace(**dict(zip(named._fields, parts, strict=True)))
        return type(item)(parts)
    result = leaf(item)
    if result is NotImplemented:
        raise TypeError(f"{name} does not support values of type {type(item).__name__}")
    return result
