"""Categorical observations as a network takes them: a one at each value, zeros elsewhere.

Shapes: B rows, C categorical numbers in one observation, V values of all of them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dicore.errors import ConfigError


class OneHot(nn.Module):
    """Turns integers [B] or [B, C] into float32 [B, V]; it has no parameters.

    Args:
        sizes: How many values each of the C numbers takes.
        start: The least value of each; None: 0.

    Raises:
        ConfigError: `start` is not one number for each of `sizes`.
    """

    offset: Tensor

    def __init__(self, sizes: Sequence[int], start: Sequence[int] | None = None) -> None:
        super().__init__()
        least = [0] * len(sizes) if start is None else list(start)
        if len(least) != len(sizes) or not sizes:
            raise ConfigError(
                f"model.one_hot_start: {len(least)} numbers for {len(sizes)} in model.one_hot"
            )
        self.width = int(sum(sizes))
        self._column = np.cumsum([0, *sizes[:-1]]) - np.asarray(least)
        self.register_buffer("offset", torch.from_numpy(self._column), persistent=False)

    def forward(self, obs: Tensor) -> Tensor:
        """Encodes integers [B] or [B, C] as float32 [B, V]."""
        column = obs.reshape(len(obs), -1).long() + self.offset
        return torch.zeros(len(obs), self.width, device=obs.device).scatter_(1, column, 1.0)

    def by_numpy(self, obs: Any) -> npt.NDArray[np.float32]:
        """Does the same with arrays."""
        column = np.asarray(obs).reshape(len(obs), -1) + self._column
        encoded = np.zeros((len(obs), self.width), np.float32)
        np.put_along_axis(encoded, column, np.float32(1), 1)
        return encoded
