"""Continuous actions in units of their bounds: those of bounded dimensions are in [-1, 1].

Shapes: A dimensions of an action; `...` any leading ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dicore_plugins.functional.exploration import finite

__all__ = ["UnitActions", "action_bounds"]


class UnitActions:
    """Scales actions in [-1, 1] to those of an environment, and back.

    Dimensions without a finite lower and upper bound keep the units of the environment.

    Args:
        cfg: Section of a policy: `action_low` and `action_high`, and `action_dims`, the shape of an
            action that is no vector; `action_scaling=False` keeps the units of the environment.
        device: Device of the tensors.

    Attributes:
        size: A.
        scale: float32 [A]; half the width of each dimension, or 1.
        middle: float32 [A]; the middle of each dimension, or 0.
    """

    def __init__(self, cfg: Any, device: str) -> None:
        low, high = (np.asarray(each, np.float64) for each in (cfg.action_low, cfg.action_high))
        bounded = (np.abs((low, high)) <= np.finfo(np.float32).max).all(0)
        bounded &= bool(cfg.get("action_scaling", True))
        low, high = np.where(bounded, low, -1), np.where(bounded, high, 1)
        self.scale = ((high - low) / 2).astype(np.float32)
        self.middle = ((high + low) / 2).astype(np.float32)
        self._moves = bool((self.scale != 1).any() or self.middle.any())
        self._bounds = action_bounds(cfg)
        dims: Sequence[int] | None = cfg.get("action_dims")
        self._dims = None if dims is None or len(dims) == 1 else tuple(dims)
        self.size = len(self.scale)
        divisor = np.where(self.scale > 0, self.scale, np.float32(1))  # a single action is 0
        self._to = torch.from_numpy(divisor).to(device), torch.from_numpy(self.middle).to(device)
        self._from = torch.from_numpy(self.scale).to(device)

    def unit(self, action: Tensor) -> Tensor:
        """Scales actions of the environment, flat [..., A], to [-1, 1]: float32 [..., A]."""
        divisor, middle = self._to
        return (action.float() - middle) / divisor

    def within(self, action: Tensor) -> Tensor:
        """Clips scaled actions [..., A] to those that the environment has: float32 [..., A]."""
        low, high = (self.unit(torch.from_numpy(each).to(action.device)) for each in self._bounds)
        return action.clamp(low, high)

    def scaled(self, action: Tensor) -> Tensor:
        """Scales actions in [-1, 1] to the environment's: float32 [..., A]; rounding remains."""
        return action * self._from + self._to[1]

    def env(self, action: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Scales actions in [-1, 1] to those of the environment, clipped to their bounds.

        Args:
            action: float32 [K, A].

        Returns:
            float32 [K, A], or [K, ...] in the shape of an action that is no vector.

        Raises:
            NonFiniteError: an action is NaN or infinite.
        """
        finite(action)
        low, high = self._bounds  # rounding may exceed them
        if self._moves:
            action = action * self.scale + self.middle
        scaled: npt.NDArray[np.float32] = np.minimum(np.maximum(action, low), high)
        return scaled if self._dims is None else scaled.reshape(-1, *self._dims)


def action_bounds(cfg: Any) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Returns the least and largest continuous actions of a policy's section: float32 [A] each.

    Bounds that float32 does not have are rounded inwards, so that actions are in the action space.
    """
    found = []
    for bound, inwards in ((cfg.action_low, np.inf), (cfg.action_high, -np.inf)):
        exact = np.array(bound, np.float64)
        with np.errstate(over="ignore"):
            rounded = exact.astype(np.float32)
        outside = rounded < exact if inwards > 0 else rounded > exact
        found.append(np.where(outside, np.nextafter(rounded, np.float32(inwards)), rounded))
    return found[0], found[1]
