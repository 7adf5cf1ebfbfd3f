"""Encoders of nested and categorical observations: encoded by leaf and concatenated.

Shapes: B observations, C categorical values in one observation, V width of the encoding.
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

from dicore.errors import ConfigError, EnvSpaceError
from dicore.values import Tree
from dicore_plugins.models.encoders.mlp import is_recorded
from dicore_plugins.models.shapes import Part


class Nested(nn.Module):
    """Encodes an array [B, ...] or a tree of arrays as float32 [B, V].

    Vectors are flattened, categories one-hot; images go through a CNN, without which there are no
    parameters.

    Args:
        parts: The leaves in the order of concatenation.
        conv: Name of the CNN for images; see `image_encoder`.

    Attributes:
        width: V.
        learned: Whether there are images, so that it has parameters.

    Raises:
        ConfigError: a leaf has more or fewer category starts than category counts.
    """

    def __init__(self, parts: Sequence[Part], conv: str = "auto") -> None:
        super().__init__()
        made = [_encoder(part, conv) for part in parts]
        self.width = sum(width for _, width in made)
        self.encoders = nn.ModuleList(each for each, _ in made if each is not None)
        self.learned = any(True for _ in self.parameters())
        self._parts = [(keys, each) for (keys, *_), (each, _) in zip(parts, made, strict=True)]

    def forward(self, obs: Tree) -> Tensor:
        """Encodes a tree of tensors.

        Raises:
            EnvSpaceError: a category is outside its range.
        """
        columns = [
            leaf.reshape(leaf.shape[0], -1).float() if encoder is None else encoder.forward(leaf)
            for leaf, encoder in self._leaves(obs)
        ]
        return columns[0] if len(columns) == 1 else torch.cat(columns, 1)

    def by_numpy(self, obs: Tree) -> npt.NDArray[np.float32]:
        """Encodes arrays in the same way, if none are images."""
        columns = [
            _flat(leaf) if encoder is None else encoder.by_numpy(leaf)
            for leaf, encoder in self._leaves(obs)
        ]
        return columns[0] if len(columns) == 1 else np.concatenate(columns, 1)

    def _leaves(self, obs: Tree) -> list[tuple[Any, Any]]:
        return [
            (obs[keys[0]] if len(keys) == 1 else reduce(getitem, keys, obs), encoder)
            for keys, encoder in self._parts
        ]


def _flat(leaf: Tree) -> npt.NDArray[np.float32]:
    x = np.asarray(leaf, np.float32)
    return x if x.ndim == 2 else x.reshape(len(x), -1)


def _encoder(part: Part, conv: str) -> tuple[nn.Module | None, int]:
    """Returns the encoder of a leaf (None: it is flattened), and its width."""
    _, width, sizes, start = part
    if sizes:
        return OneHot(sizes, start), width
    if not start:
        return None, width
    from dicore_plugins.models.encoders.conv import image_encoder

    return image_encoder(conv, start)


class OneHot(nn.Module):
    """Encodes integers [B] or [B, C] as one-hot float32 [B, V]; it has no parameters.

    Args:
        sizes: Number of values of each of the C categories.
        start: Lowest value of each; None: 0.

    Raises:
        ConfigError: `start` and `sizes` differ in length.
    """

    offset: Tensor

    def __init__(self, sizes: Sequence[int], start: Sequence[int] | None = None) -> None:
        super().__init__()
        starts = [0] * len(sizes) if start is None else list(start)
        if len(starts) != len(sizes) or not sizes:
            raise ConfigError(
                f"model.obs_parts: {len(starts)} category starts for {len(sizes)} category counts"
            )
        self.width = int(sum(sizes))
        self._start = np.asarray(starts, np.int64)
        self._sizes = np.asarray(sizes, np.uint64)
        self._column = np.cumsum([0, *sizes[:-1]])
        offset = torch.from_numpy(self._column - self._start)
        self.register_buffer("offset", offset, persistent=False)

    def forward(self, obs: Tensor) -> Tensor:
        """Encodes integers [B] or [B, C] as float32 [B, V].

        Raises:
            EnvSpaceError: a category is outside its range (checked on the CPU only; on other
                devices `scatter_` raises the error of the device).
        """
        if obs.device.type == "cpu" and not is_recorded():
            column = torch.from_numpy(self._index(obs.numpy()) + self._column)
        else:
            column = obs.reshape(obs.shape[0], -1).long() + self.offset
        return torch.zeros(obs.shape[0], self.width, device=obs.device).scatter_(1, column, 1.0)

    def by_numpy(self, obs: Tree) -> npt.NDArray[np.float32]:
        """Encodes arrays in the same way."""
        encoded = np.zeros((len(obs), self.width), np.float32)
        np.put_along_axis(encoded, self._index(obs) + self._column, np.float32(1), 1)
        return encoded

    def _index(self, obs: Tree) -> npt.NDArray[np.int64]:
        """Converts categories to indices from 0: int64 [B, C]."""
        index = np.asarray(obs, np.int64).reshape(len(obs), -1) - self._start
        outside = index.view(np.uint64) >= self._sizes  # a negative number is large when unsigned
        if outside.any():
            row, place = map(int, np.argwhere(outside)[0])
            start, value = int(self._start[place]), int(index[row, place] + self._start[place])
            raise EnvSpaceError(
                f"observation {value} is not in {start}..{start + int(self._sizes[place]) - 1}",
                hint="declare an observation space that contains every observation",
            )
        return index
