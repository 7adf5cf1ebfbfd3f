"""What an expert did: samples that a reward model compares others to.

Shapes: N expert samples, B of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dicore.data import Batch, Columns, tree_map, tree_paths
from dicore.errors import NonFiniteError, SchemaError, UsageError

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IDataset


__all__ = ["ExpertSamples", "checked_samples", "steps_of"]

_MADE_BY = "dicore collect RUN --episodes 10 -o demo.npz makes them of a trained policy"


def checked_samples(data: Batch, keys: tuple[str, ...], who: object) -> Batch:
    """Returns a copy of some columns of expert samples.

    Args:
        data: N samples.
        keys: The columns.
        who: Who needs them, for messages.

    Raises:
        UsageError: there are none.
        SchemaError: a column is missing.
        NonFiniteError: a number is NaN or infinite.
    """
    if not len(data):
        raise UsageError(f"{who}: 0 expert samples", hint=_MADE_BY)
    for key in keys:
        if key not in data:
            raise SchemaError(f"{who}: the expert samples have no column '{key}'", hint=_MADE_BY)
    copied = Batch({key: tree_map(np.array, data[key]) for key in keys}, len(data))
    for path, leaf in tree_paths(copied.columns).items():
        bad = np.flatnonzero(~np.isfinite(leaf).reshape(len(leaf), -1).all(1))
        if len(bad):
            raise NonFiniteError(
                f"{who}: expert sample {bad[0]}, {path}: {leaf[bad[0]]}",
                hint="remove the episode, or use other data",
            )
    return copied


def steps_of(dataset: IDataset) -> Batch:
    """Returns all samples of a data set, with `end` (bool [N]) if it tells the ends of episodes."""
    steps: Batch = dataset.take(np.arange(len(dataset)))
    end = getattr(dataset, "end", None)
    return steps if end is None else Batch({**steps.columns, "end": end}, len(steps))


class ExpertSamples:
    """Samples of an expert as tensors, drawn uniformly.

    Args:
        who: Who needs them, for messages.
        rng: Random generator.
    """

    def __init__(self, who: object, rng: np.random.Generator) -> None:
        self._who, self._rng = who, rng
        self._columns: dict[str, Any] | None = None
        self._count = 0

    def store(self, columns: Columns, count: int) -> None:
        """Replaces the samples by tensors [N, ...]."""
        self._columns, self._count = columns, count

    @property
    def columns(self) -> dict[str, Any]:
        """All samples.

        Raises:
            UsageError: there are none.
        """
        if self._columns is None:
            raise UsageError(
                f"{self._who} has no expert data", hint=f"call load_expert_data; {_MADE_BY}"
            )
        return self._columns

    def draw(self, size: int) -> dict[str, Any]:
        """Draws B samples.

        Raises:
            UsageError: there are none.
        """
        columns = self.columns
        rows = torch.from_numpy(self._rng.integers(0, self._count, size))
        drawn: dict[str, Any] = tree_map(lambda leaf: leaf[rows.to(leaf.device)], columns)
        return drawn
