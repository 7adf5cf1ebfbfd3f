"""Names of the values that components hand to each other; importing them needs no numpy."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

__all__ = ["Columns", "Info", "Row", "State", "StateDict", "Suspended", "Tree"]

Tree = Any
"""An array, a tensor, or a (nested) dict, list or tuple of them."""
Row = dict[str, Tree]
Columns = dict[str, Tree]
"""Columns, or the outputs of a network, by name; each is a `Tree`."""
StateDict = dict[str, Any]
"""What `state_dict` returns: values that a checkpoint can hold."""
State = Mapping[str, Any]
"""What `load_state_dict` takes."""
Info = dict[str, Any]
"""What an environment tells of a reset or a step beside its columns."""
Suspended = Generator[None, None, None]
"""A middleware that ran up to its `yield`."""
