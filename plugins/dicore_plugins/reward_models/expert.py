"""What an expert did: samples that a reward model compares others to.

Shapes: N expert samples, B of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium.spaces import Space

from dicore.data import Batch, Columns, State, StateDict, Tree, tree_map, tree_paths
from dicore.errors import NonFiniteError, SchemaError, UsageError
from dicore_plugins.reward_models.base import encoder_of

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IDataset

__all__ = ["ExpertSamples", "ExpertVectors", "checked_samples", "steps_of"]

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


class ExpertVectors:
    """What is in a space as vectors, normalised by the statistics of an expert's.

    Args:
        space: Space of one item; a Dict for several columns.
        who: Who needs them, for messages.

    Raises:
        UsageError: they are images.
    """

    def __init__(self, space: Space[Any], who: object) -> None:
        self._encoder = encoder_of(space, math.inf)
        norm = self._encoder.norm
        if self._encoder.learned or norm is None:
            raise UsageError(f"{who} compares vectors; observations are images", hint="choose gail")
        self.norm = norm

    def fit(self, rows: Tree) -> None:
        """Replaces the statistics by those of rows [N, ...]."""
        self.norm.load_state_dict(type(self.norm)(self._encoder.features).state_dict())
        self.norm.update(self.plain(rows))

    def plain(self, rows: Tree) -> torch.Tensor:
        """Returns rows [B, ...] as vectors float32 [B, F], on the CPU, as they are."""
        return self._encoder.vector(tree_map(lambda leaf: torch.as_tensor(leaf).cpu(), rows))

    def __call__(self, rows: Tree) -> torch.Tensor:
        """Returns rows [B, ...] as normalised vectors: float32 [B, F], without a graph."""
        with torch.no_grad():
            found: torch.Tensor = self.norm(self.plain(rows))
        return found

    def state_dict(self) -> StateDict:
        """Returns the statistics."""
        return {key: each.clone() for key, each in self.norm.state_dict().items()}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self.norm.load_state_dict({key: torch.as_tensor(each) for key, each in state.items()})
