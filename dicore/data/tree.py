"""Operations on nested columns (a fast path for flat dicts, else optree) and their tensors.

The core never imports torch; it uses torch if something else has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import optree

from dicore.errors import NonFiniteError, SchemaError, UsageError
from dicore.values import Tree


def loaded_torch() -> ModuleType | None:
    """Returns the torch module if it is imported, else None."""
    return sys.modules.get("torch")


def is_tensor(value: object) -> bool:
    """Returns whether `value` is a torch tensor, without importing torch."""
    torch = loaded_torch()
    return torch is not None and isinstance(value, torch.Tensor)


def to_tensor(column: Tree) -> Tree:
    """Converts a column to a tensor that shares its memory on the CPU; tensors are unchanged."""
    torch = loaded_torch()
    if torch is None:
        raise UsageError("torch is not imported", hint="import torch before calling to_torch()")
    return column if isinstance(column, torch.Tensor) else torch.from_numpy(np.asarray(column))


def stack(values: list[Tree]) -> Tree:
    """Stacks leaves along a new first axis: tensors to a tensor, others to an array.

    Floats of double precision become float32, as in all columns of dicore.
    """
    if is_tensor(values[0]):
        torch = loaded_torch()
        assert torch is not None
        return torch.stack(values)
    out = np.stack([np.asarray(value) for value in values])
    return _to_float32(out) if out.dtype == np.float64 else out


def _to_float32(array: Array) -> Array:
    try:
        with np.errstate(over="raise"):
            return array.astype(np.float32)
    except FloatingPointError:
        finite = array[np.isfinite(array)]
        worst = finite[np.argmax(np.abs(finite))]
        raise NonFiniteError(f"{worst:g} is too large for float32") from None


Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
"""An array of any dtype and shape."""
Index: TypeAlias = SupportsIndex | slice | Array | Sequence[int]
"""What picks rows of an array."""

_NODES = (dict, tuple, list)


def tree_map(fn: Callable[..., Tree], tree: Tree, *rest: Tree) -> Tree:
    """Applies `fn` to every leaf of a tree; an array is a leaf."""
    if not rest:
        if isinstance(tree, np.ndarray):
            return fn(tree)
        if type(tree) is dict:  # twice as fast as optree
            return {
                key: fn(leaf) if type(leaf) is np.ndarray else tree_map(fn, leaf)
                for key, leaf in tree.items()
            }
    return optree.tree_map(fn, tree, *rest)


def tree_row(tree: Tree, index: Index) -> Tree:
    """Indexes the first axis of every leaf; returns views where numpy does."""
    if isinstance(tree, np.ndarray):
        return tree[index]
    if type(tree) is dict:
        return {
            key: tree_row(value, index) if type(value) in _NODES else value[index]
            for key, value in tree.items()
        }
    if hasattr(tree, "row"):
        return tree.row(index)
    return optree.tree_map(lambda leaf: leaf[index], tree)


def tree_stack(trees: list[Tree]) -> Tree:
    """Stacks equal trees, leaf by leaf; raises `SchemaError` if keys or shapes differ."""
    first = trees[0]
    try:
        if type(first) is dict and not any(
            isinstance(v, dict | list | tuple) for v in first.values()
        ):
            return {key: stack([tree[key] for tree in trees]) for key in first}
        return optree.tree_map(lambda *leaves: stack(list(leaves)), first, *trees[1:])
    except KeyError as error:
        where = next(i for i, tree in enumerate(trees) if error.args[0] not in tree)
        raise SchemaError(f"row {where} lacks the key {error.args[0]!r} of row 0") from None
    except ValueError as error:
        raise SchemaError(f"cannot stack rows: {error}") from error


def tree_len(tree: Tree) -> int:
    """Returns the length of the leading axis of all leaves; raises `SchemaError` if they differ."""
    paths, leaves, _ = optree.tree_flatten_with_path(tree)
    if not leaves:
        raise SchemaError("a batch needs at least one column")
    lengths = {}
    for path, leaf in zip(paths, leaves, strict=True):
        shape = getattr(leaf, "shape", None)
        if not shape:
            raise SchemaError(f"column {_dotted(path)} has no leading axis: {type(leaf).__name__}")
        lengths[_dotted(path)] = int(shape[0])
    if len(set(lengths.values())) > 1:
        raise SchemaError(f"columns differ in length: {lengths}")
    return next(iter(lengths.values()))


def tree_paths(tree: Tree) -> dict[str, Tree]:
    """Returns the leaves by dotted path, in optree's order."""
    paths, leaves, _ = optree.tree_flatten_with_path(tree)
    return {_dotted(path): leaf for path, leaf in zip(paths, leaves, strict=True)}


def _dotted(path: tuple[object, ...]) -> str:
    return ".".join(str(key) for key in path) or "value"
