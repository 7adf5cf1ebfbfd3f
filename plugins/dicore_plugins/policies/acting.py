"""Acting: a model run on numpy observations without gradients, the quickest way it offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from dicore.data import Tree, tree_map, tree_paths


class Actor:
    """A model seen from the acting side: numpy in, numpy out, no gradient.

    Small MLPs on the CPU act by numpy views of their own parameters (`model.act_numpy()`): the
    weights are shared, so every update is seen at once. Everything else acts by the module.

    Args:
        model: The shared network; its attributes stay reachable through the actor.
        device: Where the module lives.
        by_numpy: Use the views where the model offers them.
    """

    def __init__(self, model: Any, device: str = "cpu", *, by_numpy: bool = True) -> None:
        self._model = model
        self._device = device
        self._by_numpy = by_numpy and device == "cpu" and hasattr(model, "act_numpy")
        self._act: Callable[[Any], Any] | None = None
        self.rebind()

    def rebind(self) -> None:
        """Takes the views anew; needed after the parameters moved in memory."""
        self._act = self._model.act_numpy() if self._by_numpy else None

    def forward(self, obs: Tree) -> dict[str, Any]:
        """Runs the model on K observations.

        Args:
            obs: Arrays [K, ...], nested as the model takes them.

        Returns:
            The model's outputs as arrays: `logit` [K, A] (a list of such for several heads), ….
        """
        try:
            if self._act is not None:
                return {"logit": self._act(obs)}
            with torch.inference_mode():
                output = as_outputs(self._model(tree_map(self._tensor, obs)))
                return {key: tree_map(_array, value) for key, value in output.items()}
        except Exception as error:
            shapes = {path: [*np.shape(leaf)] for path, leaf in tree_paths(obs).items()}
            seen = ", ".join(f"{path} {shape}" for path, shape in shapes.items())
            error.add_note(f"raised by {type(self._model).__name__} acting on observations: {seen}")
            raise

    __call__ = forward

    def _tensor(self, leaf: Any) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(leaf)).to(self._device)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._model, name)


def as_outputs(output: Any) -> Mapping[str, Any]:
    """Returns what a network says by name; a bare tensor, or a list of one per head, is `logit`."""
    return output if isinstance(output, Mapping) else {"logit": output}


def _array(leaf: Any) -> Any:
    return leaf.cpu().numpy() if isinstance(leaf, torch.Tensor) else leaf
