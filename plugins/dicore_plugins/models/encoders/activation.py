"""Activations by name, for torch and for acting by numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

ActivationName = Literal["relu", "tanh", "elu", "gelu"]
ByNumpy = Callable[[npt.NDArray[np.float32]], Any]


class Activation(NamedTuple):
    """One activation.

    Args:
        by_torch: The function of a tensor.
        by_numpy: The same function of an array, written over its argument; None if numpy has not
            what it takes.
    """

    by_torch: Callable[[Tensor], Tensor]
    by_numpy: ByNumpy | None


_ZERO = np.float32(0)


def _relu(x: npt.NDArray[np.float32]) -> None:
    np.maximum(x, _ZERO, out=x)


def _tanh(x: npt.NDArray[np.float32]) -> None:
    np.tanh(x, out=x)


def _elu(x: npt.NDArray[np.float32]) -> None:
    np.copyto(x, np.expm1(np.minimum(x, _ZERO)), where=x < _ZERO)


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(F.relu, _relu),
    "tanh": Activation(torch.tanh, _tanh),
    "elu": Activation(F.elu, _elu),
    "gelu": Activation(F.gelu, None),
}
