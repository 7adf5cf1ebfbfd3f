"""Parameters that one process trains and others act by, as numbered versions.

A version is a copy of what a mode's `state_dict` returned, as NumPy arrays: it is never changed, so
that nobody reads half of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch

from dicore.data import Tree, tree_map
from dicore.data.tree import is_tensor

if TYPE_CHECKING:
    from dicore.data import Columns, State
    from dicore.interfaces.policy import CollectMode, EvalMode

__all__ = ["Publisher", "Versioned", "as_arrays", "as_tensors"]


def as_arrays(state: Tree) -> Tree:
    """Returns a state with tensors as arrays, which share memory on the CPU."""
    return tree_map(_array, state)


def as_tensors(state: Tree) -> Tree:
    """Returns what was given to `as_arrays`; the tensors must not be written to."""
    return tree_map(_tensor, state)


class _Encoded:
    """A tensor of a dtype that NumPy lacks, such as bfloat16, as bytes."""

    def __init__(self, value: torch.Tensor) -> None:
        self.dtype, self.shape = value.dtype, value.shape
        flat = value.contiguous().reshape(-1)
        self.data = flat.view(torch.uint8).numpy() if flat.numel() else None

    def tensor(self) -> torch.Tensor:
        if self.data is None:
            return torch.empty(self.shape, dtype=self.dtype)
        return _tensor_of(self.data).view(self.dtype).reshape(self.shape)


def _array(leaf: Tree) -> Tree:
    if not is_tensor(leaf):
        return leaf
    value = leaf.detach().cpu()
    try:
        return _Plain(value.numpy())
    except TypeError:
        return _Encoded(value)


class _Plain:
    """A tensor as an array, to tell it from values that were arrays before."""

    __slots__ = ("data",)

    def __init__(self, data: object) -> None:
        self.data = data

    def tensor(self) -> torch.Tensor:
        return _tensor_of(self.data)


def _tensor(leaf: Tree) -> object:
    return leaf.tensor() if isinstance(leaf, _Plain | _Encoded) else leaf


def _tensor_of(array: Tree) -> torch.Tensor:
    """Returns a tensor that shares the memory of an array which is read-only."""
    if not array.size:
        return torch.from_numpy(array.copy())
    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Unlocked(array)))


class _Unlocked:
    """A read-only array as one that is not, of which torch would warn; nobody writes to it."""

    def __init__(self, array: Tree) -> None:
        self._array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


class Publisher:
    """Publishes the parameters of a mode; a new version when its number has changed.

    Args:
        mode: A mode with `state_dict`.
        put: Stores a state where the other processes find it, and returns its address.

    Attributes:
        version: Number of the newest version; -1: none.
        address: Where it is.
    """

    def __init__(self, mode: CollectMode, put: Callable[[Columns], object]) -> None:
        self._mode, self._put = mode, put
        self.version = -1
        self.address: object = None

    def publish(self, version: int) -> object:
        """Returns the address of the present parameters, which are those of this version."""
        if version != self.version or self.address is None:
            self.address = self._put(as_arrays(self._mode.state_dict()))
            self.version = version
        return self.address


class Versioned:
    """Loads versions into a mode of another process.

    Args:
        mode: A mode with `load_state_dict`.

    Attributes:
        version: Number of the version that the mode acts by; -1: its own initial parameters.
    """

    def __init__(self, mode: CollectMode | EvalMode) -> None:
        self._mode = mode
        self.version = -1

    def adopt(self, version: int, state: State) -> None:
        """Acts by a version; does nothing if it already does."""
        if version != self.version:
            self._mode.load_state_dict(as_tensors(state))
            self.version = version
