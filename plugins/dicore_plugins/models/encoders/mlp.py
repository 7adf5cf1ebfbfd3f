"""A stack of linear layers, seen by torch and by numpy as one and the same memory.

Shapes: B rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore_plugins.models.encoders.activation import ACTIVATIONS, ActivationName, initialise

Array = npt.NDArray[np.float32]


class MLP(nn.Module):
    """Linear layers with an activation between them.

    The forward calls the layers' functions rather than the layers: at the sizes of reinforcement
    learning, calling modules costs as much as the arithmetic. Forward hooks of single layers
    therefore do not run; those of the MLP do.

    Args:
        sizes: Of input, hidden layers and output.
        activation: Between the layers.
        activate_output: Apply it to the output too.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        activation: ActivationName = "relu",
        *,
        activate_output: bool = False,
    ) -> None:
        super().__init__()
        function = ACTIVATIONS[activation]
        self.activation = activation
        self._activate = function.by_torch
        self.layers = nn.ModuleList()
        # The layers' own dicts of parameters: a tenth of the price of `layer.weight`, and right
        # when a parameter is replaced. deepcopy and pickle keep them shared with the layers.
        self._tables: list[tuple[dict[str, Any], bool]] = []
        for index, (fan_in, fan_out) in enumerate(pairwise(sizes)):
            layer = nn.Linear(fan_in, fan_out)
            active = activate_output or index < len(sizes) - 2
            initialise(layer, function.gain if active else 1.0)
            self.layers.append(layer)
            self._tables.append((layer._parameters, active))  # noqa: SLF001 - see above

    def forward(self, x: Tensor) -> Tensor:
        """Maps float32 [B, input] to [B, output]."""
        for table, active in self._tables:
            x = F.linear(x, table["weight"], table["bias"])
            if active:
                x = self._activate(x)
        return x

    @property
    def widest(self) -> int:
        """Most weights in one layer."""
        return max((table["weight"].numel() for table, _ in self._tables), default=0)

    def by_numpy(self) -> Callable[[Array], Array] | None:
        """Returns the forward on arrays, over numpy views of the present parameters.

        Returns:
            A function of float32 [B, input] that returns memory of its own; None where there can be
            none: parameters not in float32 on the CPU, or an activation that numpy lacks.
        """
        activate = ACTIVATIONS[self.activation].by_numpy
        parameters = [each for table, _ in self._tables for each in table.values()]
        if activate is None or any(
            each.dtype != torch.float32 or each.device.type != "cpu" for each in parameters
        ):
            return None
        views = [
            (table["weight"].detach().numpy().T, table["bias"].detach().numpy(), active)
            for table, active in self._tables
        ]

        def forward(x: Array) -> Array:
            for weight, bias, active in views:
                x = x.dot(weight)
                x += bias
                if active:
                    activate(x)
            return x

        return forward
