"""Selecting continuous actions from a Gaussian: its mean, or a reparameterized sample.

The output of the model has `mean` and `log_std`, arrays or tensors [K, A]; each wrapper adds
`action` [K, A] of the same type, which is finite but may be outside of the action space. The output
of the model is not changed.

Shapes: K observations, A dimensions of an action.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dicore.data import Columns, Tree
from dicore.data.tree import is_tensor, loaded_torch
from dicore.run.random import stream
from dicore_plugins.functional.exploration import finite
from dicore_plugins.model_wrappers.base import BaseWrapper

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel, IModelWrapper


class DeterministicSample(BaseWrapper):
    """Selects the mean of a Gaussian."""

    def forward(self, *args: object, **kwargs: object) -> Columns:
        """Runs the model and selects actions."""
        output = self._model(*args, **kwargs)
        return {**output, "action": finite(output["mean"])}


class ReparamSample(BaseWrapper):
    """Samples mean + exp(log_std) * noise; the gradient flows through mean and log_std.

    Args:
        model: Model that returns `mean` and `log_std`.
        rng: NumPy generator; None: the stream `model_wrapper/reparam_sample`.
    """

    def __init__(
        self, model: IModel | IModelWrapper, rng: np.random.Generator | None = None
    ) -> None:
        super().__init__(model)
        self._rng = stream("model_wrapper/reparam_sample") if rng is None else rng

    def forward(self, *args: object, **kwargs: object) -> Columns:
        """Runs the model and samples actions."""
        output = self._model(*args, **kwargs)
        action = noisy_mean(output["mean"], output["log_std"], self._rng)
        return {**output, "action": finite(action)}


def noisy_mean(mean: Tree, log_std: Tree, rng: np.random.Generator) -> Tree:
    """Samples mean + exp(log_std) * noise, an array or tensor [K, A] like `mean`."""
    noise: npt.NDArray[np.float32] = rng.standard_normal(tuple(mean.shape), np.float32)
    if is_tensor(mean):
        torch = loaded_torch()
        assert torch is not None
        return mean + log_std.exp() * torch.from_numpy(noise).to(mean.device)
    return mean + np.exp(log_std) * noise
