"""The plain layer, and what all layers share: everything they do not define is the model's own."""

from __future__ import annotations

from typing import Any

from dicore.interfaces.model import IModel, IModelWrapper


class BaseWrapper:
    """Runs the model as it is; other wrappers derive from this.

    Attributes and methods that a layer does not define (`parameters`, `state_dict`, the model's
    own) are those of the model below, at any depth.

    Args:
        model: A model, or another wrapper.
    """

    def __init__(self, model: IModel | IModelWrapper) -> None:
        self._model = model

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model; derived layers add to its output and never change it in place."""
        return self._model(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def reset(self, *args: Any, **kwargs: Any) -> None:
        """Clears per-environment state of the layers and models below that have any."""
        reset = getattr(self._model, "reset", None)
        if reset is not None:
            reset(*args, **kwargs)

    @property
    def layers(self) -> tuple[Any, ...]:
        """All layers from the outermost inwards; the last is the model itself."""
        below = self._model
        return (self, *(below.layers if isinstance(below, BaseWrapper) else (below,)))

    def info(self, name: str) -> str:
        """Says which layers have an attribute, from the outermost inwards.

        Args:
            name: Of an attribute or method.

        Returns:
            Class names such as `ArgmaxSample > BaseWrapper > DQN`; the first is the one used.

        Raises:
            AttributeError: neither a layer nor the model has it.
        """
        *wrappers, model = self.layers
        owners = [
            type(each).__name__
            for each in wrappers
            if name in vars(each) or hasattr(type(each), name)
        ]
        if hasattr(model, name):
            owners.append(type(model).__name__)
        if not owners:
            raise AttributeError(f"{self!r} has no attribute '{name}' at any depth")
        return " > ".join(owners)

    def __getattr__(self, name: str) -> Any:
        # Only names found nowhere else arrive here. Copying and unpickling ask for special methods
        # before there is a model.
        if name == "_model" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        return getattr(self._model, name)

    def __repr__(self) -> str:
        below = self._model
        inner = repr(below) if isinstance(below, BaseWrapper) else type(below).__name__
        return f"{type(self).__name__}({inner})"
