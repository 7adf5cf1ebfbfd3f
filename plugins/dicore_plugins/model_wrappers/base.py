"""Wrapping models: the base of all wrappers, and finding a wrapper by its registered name."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

from dicore.errors import UsageError

if TYPE_CHECKING:
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


def model_wrap(model: Any, wrapper_name: str, **kwargs: Any) -> Any:
    """Puts a layer around a model; the model is shared, not copied.

    The innermost layer is always a `base`: `argmax_sample` around a bare model makes two.

    Args:
        model: A network, or what an earlier call returned.
        wrapper_name: Registered name (`base`, `argmax_sample`, …), `dist/name` or an import path.
        **kwargs: Options of the wrapper.

    Returns:
        The outermost layer.

    Raises:
        UsageError: `model` is no model, or the wrapper does not take an option.
        UnknownComponentError: no wrapper has this name; the text lists those there are.
    """
    if isinstance(model, FunctionType | type):
        raise UsageError(
            f"model_wrap needs a model, got {_kind(model)} '{model.__name__}'",
            hint="write model_wrap(model, wrapper_name=...) with the network itself",
        )
    if not callable(model):
        raise UsageError(
            f"model_wrap needs a model, got a {type(model).__name__}",
            hint="a model is called with observations and returns a dict",
        )
    wrapper = _find(wrapper_name)
    if not isinstance(model, BaseWrapper) and wrapper is not BaseWrapper:
        model = BaseWrapper(model)
    _check_options(wrapper, wrapper_name, kwargs)
    return wrapper(model, **kwargs)


def register_wrapper(name: str, cls: type) -> None:
    """Registers a wrapper class for this process; packages declare theirs as entry points.

    Args:
        name: What `model_wrap` finds it by.
        cls: A class whose first argument is the model; deriving from `BaseWrapper` gives it the
            pass-through of attributes.

    Raises:
        UsageError: `cls` is not a class.
        PluginConflictError: something else has the name.
    """
    from dicore_registry import register

    if not isinstance(cls, type):
        raise UsageError(f"a model wrapper must be a class, got {cls!r}")
    register("model_wrapper", name)(cls)


def _find(name: str) -> Any:
    from dicore_registry import default

    return default().resolve("model_wrapper", name).target


def _check_options(wrapper: Any, name: str, kwargs: dict[str, Any]) -> None:
    """Refuses options that the wrapper does not take, before its constructor runs."""
    try:
        inspect.signature(wrapper).bind(None, **kwargs)
    except TypeError as error:
        options = list(inspect.signature(wrapper).parameters.values())[1:]
        raise UsageError(
            f"model wrapper '{name}': {error}",
            hint=f"its options are {', '.join(map(str, options)) or 'none'}",
        ) from None


def _kind(model: Any) -> str:
    return "the class" if isinstance(model, type) else "the function"
