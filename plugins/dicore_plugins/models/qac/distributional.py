"""Actor and networks of the distribution of returns, for continuous actions: of TQC and D4PG.

Shapes: B observations, A dimensions of an action, E networks, N quantiles or atoms.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dicore_plugins.models.qac.config import D4PGModelConfig, TQCModelConfig
from dicore_plugins.models.qac.model import QAC

__all__ = ["CategoricalQAC", "QuantileQAC"]


class QuantileQAC(QAC):
    """Each of E networks estimates N quantiles of the return; a Q value is their mean.

    Args:
        num_quantiles: N.
        **options: Arguments of `QAC`.

    Attributes:
        fraction: float32 [N]; the fraction that each quantile estimates: (i + 1/2) / N.
    """

    config_class = TQCModelConfig
    fraction: Tensor

    def __init__(self, num_quantiles: int = 25, **options: Any) -> None:
        super().__init__(num_outputs=num_quantiles, **options)
        fraction = (torch.arange(num_quantiles) + 0.5) / num_quantiles
        self.register_buffer("fraction", fraction, persistent=False)

    def expected(self, outputs: Tensor) -> Tensor:
        """Returns the Q values [E, B] of quantiles [E, B, N]."""
        return outputs.mean(-1)


class CategoricalQAC(QAC):
    """Each of E networks has N logits of atoms at `support`; a Q value is the expectation.

    Args:
        n_atom: N.
        v_min: Value of the lowest atom.
        v_max: Value of the highest atom.
        **options: Arguments of `QAC`.

    Attributes:
        support: float32 [N]; the values of the atoms.
    """

    config_class = D4PGModelConfig
    support: Tensor

    def __init__(
        self, n_atom: int = 51, v_min: float = -100.0, v_max: float = 100.0, **options: Any
    ) -> None:
        super().__init__(num_outputs=n_atom, **options)
        self.register_buffer("support", torch.linspace(v_min, v_max, n_atom), persistent=False)

    def expected(self, outputs: Tensor) -> Tensor:
        """Returns the Q values [E, B] of logits [E, B, N]."""
        return torch.softmax(outputs, -1) @ self.support
