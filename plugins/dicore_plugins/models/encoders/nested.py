"""Observations of several parts as one vector: flattened, categories as ones, side by side.

Shapes: B rows, V numbers of all parts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import getitem
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dicore_plugins.models.encoders.one_hot import OneHot
from dicore_plugins.models.shapes import Part


class Nested(nn.Module):
    """Turns a tree of arrays [B, ...], or one such, into float32 [B, V]; it has no parameters.

    Args:
        parts: The leaves in the order in which they stand side by side.

    Raises:
        ConfigError: a part has not as many least values as categories.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__()
        self.width = sum(count for _, count, _, _ in parts)
        encoders = [OneHot(sizes, start) if sizes else None for _, _, sizes, start in parts]
        self.encoders = nn.ModuleList(each for each in encoders if each is not None)
        self._parts = [(keys, each) for (keys, *_), each in zip(parts, encoders, strict=True)]

    def forward(self, obs: Any) -> Tensor:
        """Encodes a tree of tensors.

        Raises:
            EnvSpaceError: a category is not one of its values.
        """
        columns = [
            leaf.reshape(len(leaf), -1).float() if encoder is None else encoder.forward(leaf)
            for leaf, encoder in self._leaves(obs)
        ]
        return columns[0] if len(columns) == 1 else torch.cat(columns, 1)

    def by_numpy(self, obs: Any) -> npt.NDArray[np.float32]:
        """Does the same with arrays."""
        columns = [
            np.asarray(leaf, np.float32).reshape(len(leaf), -1)
            if encoder is None
            else encoder.by_numpy(leaf)
            for leaf, encoder in self._leaves(obs)
        ]
        return columns[0] if len(columns) == 1 else np.concatenate(columns, 1)

    def _leaves(self, obs: Any) -> list[tuple[Any, OneHot | None]]:
        return [(reduce(getitem, keys, obs), encoder) for keys, encoder in self._parts]
