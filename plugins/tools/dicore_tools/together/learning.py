"""What the learners of S seeds have in common: they update all networks at once.

Shapes: S seeds, B samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from dicore.data import Batch, Tree, tree_map
from dicore.interfaces.policy import LearnMode
from dicore_plugins.functional.samples import to_batch
from dicore_plugins.policies.base import Results

__all__ = [
    "JointLearner", "Settings", "attributes_of", "fits", "per_seed", "rows_of", "stacked",
]  # fmt: skip

Settings = Mapping[str, float]


class JointLearner(Protocol):
    """Does for S seeds what the learn mode of each does."""

    def update(self, batches: Sequence[Batch], settings: Sequence[Settings]) -> list[Any]:
        """Returns what each learn mode returns for its batch and its annealed settings."""


def attributes_of(modes: Sequence[LearnMode]) -> Callable[[str], list[Any]]:
    """Returns a function that returns an attribute of each policy."""
    return lambda name: [mode.get_attribute(name) for mode in modes]


def fits(batches: Sequence[Any]) -> bool:
    """Returns whether batches can be stacked: columns of equal names and sizes."""
    first = batches[0]
    return all(
        isinstance(each, Batch)
        and len(each) == len(first)
        and each.columns.keys() == first.columns.keys()
        for each in batches
    )


def stacked(batches: Sequence[Batch]) -> dict[str, Any]:
    """Returns the columns of S batches: tensors [S, B, ...], or trees of them."""
    rows = [to_batch(each) for each in batches]
    return {
        key: tree_map(lambda *leaves: torch.stack(leaves), *(each[key] for each in rows))
        for key in rows[0].columns
    }


def rows_of(columns: Mapping[str, Tree]) -> Batch:
    """Returns columns [S, B, ...] as S * B samples."""
    flat = {key: tree_map(lambda leaf: leaf.flatten(0, 1), each) for key, each in columns.items()}
    return Batch(flat)


def per_seed(**values: Tensor) -> list[Results]:
    """Returns numbers [S], or samples [S, B], by name, for each seed."""
    pieces = [each.unbind(0) for each in values.values()]
    return [dict(zip(values, found, strict=True)) for found in zip(*pieces, strict=True)]
