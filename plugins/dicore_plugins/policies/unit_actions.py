"""Bounded continuous actions as numbers from -1 to 1.

Shapes: A dimensions of an action; `...` any leading ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dicore_plugins.policies.base import action_bounds

__all__ = ["UnitActions"]


class UnitActions:
    """Scales actions in [-1, 1] to those of an environment, and back.

    Args:
        cfg: Section of a policy: `action_low` and `action_high`, and `action_dims`, the shape of an
            action that is no vector.
        device: Device of the tensors.

    Attributes:
        size: A.
    """

    def __init__(self, cfg: Any, device: str) -> None:
        low, high = (np.asarray(each, np.float64) for each in (cfg.action_low, cfg.action_high))
        self._scale = ((high - low) / 2).astype(np.float32)
        self._middle = ((high + low) / 2).astype(np.float32)
        self._bounds = action_bounds(cfg)
        dims: Sequence[int] | None = cfg.get("action_dims")
        self._dims = None if dims is None or len(dims) == 1 else tuple(dims)
        self.size = len(self._scale)
        divisor = np.where(self._scale > 0, self._scale, np.float32(1))  # a single action is 0
        self._to = torch.from_numpy(divisor).to(device), torch.from_numpy(self._middle).to(device)
        self._from = torch.from_numpy(self._scale).to(device)

    def unit(self, action: Tensor) -> Tensor:
        """Scales actions of the environment, flat [..., A], to [-1, 1]: float32 [..., A]."""
        divisor, middle = self._to
        return (action.float() - middle) / divisor

    def scaled(self, action: Tensor) -> Tensor:
        """Scales actions in [-1, 1] to the environment's: float32 [..., A]; rounding remains."""
        return action * self._from + self._to[1]

    def env(self, action: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Scales actions in [-1, 1] to those of the environment, within their bounds.

        Args:
            action: float32 [K, A].

        Returns:
            float32 [K, A], or [K, ...] in the shape of an action that is no vector.
        """
        low, high = self._bounds  # rounding may exceed them
        scaled = np.minimum(np.maximum(action * self._scale + self._middle, low), high)
        return scaled if self._dims is None else scaled.reshape(-1, *self._dims)
