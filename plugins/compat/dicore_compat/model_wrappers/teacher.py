"""A frozen copy of a model, for distillation."""

from __future__ import annotations

import copy

from dicore.interfaces.model import IModel, IModelWrapper
from dicore.values import Tree
from dicore_plugins.model_wrappers.base import BaseWrapper


class TeacherNetwork(BaseWrapper):
    """Runs a frozen copy of the model in evaluation mode, without gradients.

    Later changes of the model do not reach the copy. `load_state_dict` loads other parameters.

    Args:
        model: Model to copy; it is not changed.
    """

    def __init__(self, model: IModel | IModelWrapper) -> None:
        super().__init__(copy.deepcopy(model))
        network = self.layers[-1]
        if hasattr(network, "requires_grad_"):
            network.requires_grad_(False).eval()

    def forward(self, *args: object, **kwargs: object) -> Tree:
        """Runs the copy; the outputs have no graph."""
        import torch

        with torch.no_grad():
            return super().forward(*args, **kwargs)
