"""Running mean and variance, to normalise observations or values.

Chan et al. 1979, "Updating formulae and a pairwise algorithm for computing sample variances".

Shapes: B rows, F features.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dicore.values import Tree

_EPS = 1e-8


class RunningNorm(nn.Module):
    """Normalises rows by the mean and variance of all rows that `update` received.

    The statistics are buffers: `state_dict` contains them. Before the first update, rows are not
    changed.

    Args:
        features: F.
        limit: Largest absolute value of a normalised number.

    Attributes:
        add_up: Adds a tensor up over several learners, in place, so that they have the statistics
            of all rows; None: there is one learner.
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, features: int, limit: float = 10.0) -> None:
        super().__init__()
        self._limit = limit
        self.add_up: Callable[[Tensor], None] | None = None
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("var", torch.ones(features))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @property
    def std(self) -> Tensor:
        """float32 [F]; standard deviation."""
        return (self.var + _EPS).sqrt()

    def forward(self, x: Tensor) -> Tensor:
        """Normalises rows: float32 [B, F]."""
        return ((x - self.mean) / self.std).clamp(-self._limit, self._limit)

    def by_numpy(self) -> Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]:
        """Returns the same function of arrays, on views of the statistics."""
        mean, var, limit = self.mean.numpy(), self.var.numpy(), np.float32(self._limit)
        eps = np.float32(_EPS)

        def forward(x: npt.NDArray[np.float32]) -> Tree:
            y = x - mean
            y /= np.sqrt(var + eps)
            return y.clip(-limit, limit, y)

        return forward

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Adds rows [B, F] to the statistics, in place; rows that are not finite change nothing."""
        rows = x.double()
        size, mean, var = self._moments(rows)
        count = self.count + size
        delta = mean - self.mean
        share = size / count
        total = self.var * (1 - share) + var * share + delta.square() * share * (1 - share)
        good = (total.isfinite() & mean.isfinite()).all()
        self.mean.copy_(torch.where(good, self.mean + delta * share, self.mean.double()))
        self.var.copy_(torch.where(good, total, self.var.double()))
        self.count.copy_(torch.where(good, count, self.count))

    def _moments(self, rows: Tensor) -> tuple[Tensor | int, Tensor, Tensor]:
        """Returns number, mean and variance of the rows of all learners, float64."""
        if self.add_up is None:
            return len(rows), rows.mean(0), rows.var(0, correction=0)
        first = torch.cat([rows.sum(0), rows.new_tensor([len(rows)])])
        self.add_up(first)
        size, mean = first[-1], first[:-1] / first[-1]
        squares = (rows - mean).square().sum(0)
        self.add_up(squares)
        return size, mean, squares / size
