"""The state of an environment as arrays that a file for NumPy can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dicore.data import Batch, Tree

__all__ = ["array_of", "arrays_of", "texts_of"]


def arrays_of(tree: Tree, path: str = "") -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yields the arrays of batches, dicts and lists by their paths.

    What is no array of numbers, truth values or text is yielded as an array of objects.
    """
    if isinstance(tree, Batch):
        tree = tree.columns
    if isinstance(tree, Mapping):
        items: Any = tree.items()
    elif isinstance(tree, list | tuple):
        items = enumerate(tree)
    else:
        yield path or "value", array_of(tree).copy()
        return
    for name, each in items:
        yield from arrays_of(each, f"{path}.{name}" if path else str(name))


def texts_of(tree: Tree, path: str = "") -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yields a whole state: as `arrays_of`, and as text what no array of numbers holds.

    Integers of more than 64 bits, None, bytes and empty dicts, lists and tuples become their text,
    `<U` []; `ast.literal_eval(str(array))` returns the value.
    """
    if isinstance(tree, np.ndarray) and tree.dtype == object and tree.ndim:
        tree = tree.tolist()
    if isinstance(tree, Mapping | list | tuple) and tree:
        for name, each in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
            yield from texts_of(each, f"{path}.{name}" if path else str(name))
        return
    plain = tree is None or isinstance(tree, bytes | dict | list | tuple)
    large = isinstance(tree, int) and not -(2**63) <= tree < 2**64
    if plain or large:
        yield path or "value", np.asarray(repr(tree))
        return
    yield from arrays_of(tree, path)


def array_of(value: Any) -> np.ndarray[Any, Any]:
    """Returns a tensor, an array or a number as an array."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return np.asarray(value)
