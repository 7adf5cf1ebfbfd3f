"""The network of procedure cloning (Yang et al. 2022, arXiv:2205.10816): the next step of a search.

Shapes: B searches, S cells of a side, P planes of an observation, A actions; C = A + 2 labels of a
cell: 0 not visited, 1 + a an action, A + 1 the goal.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore.data import Columns
from dicore_contrib.models.procedure_config import ProcedureModelConfig

__all__ = ["ProcedureNet"]


class ProcedureNet(nn.Module):
    """Predicts the labels of all cells after a step, from those before it and around.

    Args:
        obs_shape: (S, S, P), or (S, S) of one plane; a number is that of cells in a row.
        action_shape: A.
        units: Channels of the hidden layers.
        layers: Hidden layers; the first one is of 3 x 3 cells, others of single ones.
    """

    config_class: Any = ProcedureModelConfig

    def __init__(
        self, obs_shape: int | Sequence[int], action_shape: int, *, units: int = 32, layers: int = 2
    ) -> None:
        super().__init__()
        self.obs_shape, self.action_size = cells_of(obs_shape), action_shape
        self.labels = action_shape + 2
        sizes = [self.obs_shape[-1] + self.labels, *[units] * layers]
        parts: list[nn.Module] = []
        for at, (before, after) in enumerate(pairwise(sizes)):
            parts += [nn.Conv2d(before, after, 1 if at else 3, padding=0 if at else 1), nn.ReLU()]
        self.net = nn.Sequential(*parts, nn.Conv2d(units, self.labels, 1))

    def step(self, obs: Tensor, labels: Tensor) -> Tensor:
        """Computes the logits of the labels after a step: float32 [B, C, S, S].

        Args:
            obs: [B, S, S, P]; numbers from 0 to 1.
            labels: int64 [B, S, S]; before the step.
        """
        shown = obs.float().reshape(len(obs), *self.obs_shape)
        known = F.one_hot(labels, self.labels).float()
        logit: Tensor = self.net(torch.cat([shown, known], -1).permute(0, 3, 1, 2))
        return logit

    def forward(self, obs: Tensor) -> Columns:
        """Computes the first step: `cell_logit` float32 [B, C, S, S]."""
        form = (len(obs), *self.obs_shape[:2])
        blank = torch.zeros(form, dtype=torch.int64, device=obs.device)
        return {"cell_logit": self.step(obs, blank)}


def cells_of(shape: int | Sequence[int]) -> tuple[int, int, int]:
    """Returns the shape of an observation as (rows, columns, planes)."""
    sizes = (1, shape) if isinstance(shape, int) else tuple(shape)
    sizes = (1, *sizes) if len(sizes) == 1 else sizes
    rows, columns, planes = sizes if len(sizes) == 3 else (*sizes, 1)
    return rows, columns, planes
