"""Operations on columns that may be nested: plain dicts take a fast path, the rest is optree's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from dicore.errors import NonFiniteError, SchemaError, UsageError


def loaded_torch() -> Any | None:
    """Returns the torch module if this process has imported it already, else None."""
    return sys.modules.get("torch")


def is_tensor(value: object) -> bool:
    """Says whether `value` is a torch tensor, without importing torch."""
    torch = loaded_torch()
    return torch is not None and isinstance(value, torch.Tensor)


def to_tensor(column: Any) -> Any:
    """Turns one column into a tensor that shares its memory on the CPU; tensors pass through.

    Raises:
        UsageError: torch has not been imported by the caller.
    """
    torch = loaded_torch()
    if torch is None:
        raise UsageError("torch is not imported", hint="write 'import torch' before to_torch()")
    return column if isinstance(column, torch.Tensor) else torch.from_numpy(np.asarray(column))


def stack(values: list[Any]) -> Any:
    """Stacks equal leaves on a new first axis: tensors to a tensor, all else to an array.

    Python and numpy floats of double precision become float32, as every column of dicore does.

    Raises:
        NonFiniteError: a number is finite but too large for float32.
    """
    if is_tensor(values[0]):
        torch = loaded_torch()
        assert torch is not None
        return torch.stack(values)
    out = np.stack([np.asarray(value) for value in values])
    return _single(out) if out.dtype == np.float64 else out


def _single(array: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    try:
        with np.errstate(over="raise"):
            return array.astype(np.float32)
    except FloatingPointError:
        finite = array[np.isfinite(array)]
        worst = finite[np.argmax(np.abs(finite))]
        raise NonFiniteError(f"{worst:g} is too large for float32") from None


Tree = Any
"""An array, a tensor, or a (nested) dict, list or tuple of them."""

_NODES = (dict, tuple, list)


def tree_map(fn: Callable[..., Any], tree: Tree, *rest: Tree) -> Tree:
    """Applies `fn` to every leaf; a bare array is its own leaf."""
    if not rest:
        if isinstance(tree, np.ndarray):
            return fn(tree)
        if type(tree) is dict:  # twice as quick for the columns of a batch
            return {
                key: fn(leaf) if type(leaf) is np.ndarray else tree_map(fn, leaf)
                for key, leaf in tree.items()
            }
    return optree.tree_map(fn, tree, *rest)


def tree_row(tree: Tree, index: Any) -> Tree:
    """Takes row (or rows) `index` of every leaf; a row is a view where numpy gives one."""
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
    """Stacks equal trees leaf by leaf on a new first axis.

    Raises:
        SchemaError: the trees differ in keys or shapes; the text names the first difference.
    """
    first = trees[0]
    try:
        if type(first) is dict and not any(
            isinstance(v, dict | list | tuple) for v in first.values()
        ):
            return {key: stack([tree[key] for tree in trees]) for key in first}
        return optree.tree_map(lambda *leaves: stack(list(leaves)), first, *trees[1:])
    except KeyError as error:
        where = next(i for i, tree in enumerate(trees) if error.args[0] not in tree)
        raise SchemaError(f"row {where} has no key {error.args[0]!r}; row 0 has") from None
    except ValueError as error:
        raise SchemaError(f"rows cannot be stacked: {error}") from error


def tree_len(tree: Tree) -> int:
    """Returns the length of the leading axis that all leaves share.

    Raises:
        SchemaError: there is no leaf, a leaf has no axis, or the leaves disagree.
    """
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


def tree_paths(tree: Tree) -> dict[str, Any]:
    """Returns the leaves by dotted path, in the order of flattening."""
    paths, leaves, _ = optree.tree_flatten_with_path(tree)
    return {_dotted(path): leaf for path, leaf in zip(paths, leaves, strict=True)}


def _dotted(path: tuple[Any, ...]) -> str:
    return ".".join(str(key) for key in path) or "value"
