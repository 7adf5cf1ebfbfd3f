"""Base class of model wrappers, and wrapping a model by the registered name of a wrapper."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from dicore.errors import UsageError
from dicore.values import Tree

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel, IModelWrapper


class BaseWrapper:
    """Runs the model unchanged; base class of the other wrappers.

    Attributes and methods that a wrapper does not define (such as `parameters` and `state_dict`)
    are forwarded to the model below, at any depth.

    Args:
        model: A model, or another wrapper.
    """

    def __init__(self, model: IModel | IModelWrapper) -> None:
        self._model = model

    def forward(self, *args: Tree, **kwargs: Any) -> Tree:
        """Runs the model; subclasses return a new output and never change it in place."""
        return self._model(*args, **kwargs)

    def __call__(self, *args: Tree, **kwargs: object) -> Tree:
        return self.forward(*args, **kwargs)

    def reset(self, *args: Tree, **kwargs: object) -> None:
        """Clears the per-environment state of the layers and the model below."""
        reset = getattr(self._model, "reset", None)
        if reset is not None:
            reset(*args, **kwargs)

    @property
    def layers(self) -> tuple[IModel | IModelWrapper, ...]:
        """All layers from the outermost in; the last one is the model."""
        below = self._model
        return (self, *(below.layers if isinstance(below, BaseWrapper) else (below,)))

    def info(self, name: str) -> str:
        """Returns which layers have an attribute, from the outermost in.

        Args:
            name: Name of the attribute or method.

        Returns:
            Class names such as `ArgmaxSample > BaseWrapper > DQN`; the first one is used.

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
        # Copying and unpickling look up special methods before `_model` is set.
        if name == "_model" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        return getattr(self._model, name)

    def __repr__(self) -> str:
        below = self._model
        inner = repr(below) if isinstance(below, BaseWrapper) else type(below).__name__
        return f"{type(self).__name__}({inner})"


def model_wrap(model: Any, wrapper_name: str, **kwargs: object) -> Any:
    """Wraps a model by a registered wrapper; the model is shared, not copied.

    The innermost layer is always `base`: `argmax_sample` around a bare model adds two layers.

    Args:
        model: A network, or the result of an earlier call.
        wrapper_name: Registered name (`base`, `argmax_sample`, …), `dist/name` or an import path.
        **kwargs: Options of the wrapper.

    Returns:
        The outermost layer.

    Raises:
        UsageError: `model` is not a model, or the wrapper does not accept an option.
        UnknownComponentError: no wrapper has this name; the message lists the available ones.
    """
    if isinstance(model, FunctionType | type):
        raise UsageError(
            f"model_wrap needs a model, got {_kind(model)} '{model.__name__}'",
            hint="pass the network itself: model_wrap(model, wrapper_name=...)",
        )
    if not callable(model):
        raise UsageError(
            f"model_wrap needs a model, got {type(model).__name__}",
            hint="pass a callable that maps observations to a dict",
        )
    wrapper = _find(wrapper_name)
    if not isinstance(model, BaseWrapper) and wrapper is not BaseWrapper:
        model = BaseWrapper(model)
    _check_options(wrapper, wrapper_name, kwargs)
    return wrapper(model, **kwargs)


def env_ids_for(model: object, env_id: Sequence[int] | None) -> dict[str, Sequence[int]]:
    """Returns the keyword argument `env_id` if a layer of the model has values by env id."""
    return {"env_id": env_id} if env_id is not None and getattr(model, "by_env", False) else {}


def register_wrapper(name: str, cls: type) -> None:
    """Registers a wrapper class in this process; packages declare entry points instead.

    Args:
        name: Name for `model_wrap`.
        cls: A class whose first argument is the model; subclasses of `BaseWrapper` forward
            attributes to it.

    Raises:
        UsageError: `cls` is not a class.
        PluginConflictError: the name is taken.
    """
    from dicore_registry import register

    if not isinstance(cls, type):
        raise UsageError(f"a model wrapper must be a class, got {cls!r}")
    register("model_wrapper", name)(cls)


def _find(name: str) -> Any:
    from dicore_registry import default

    return default().resolve("model_wrapper", name).target


def _check_options(wrapper: Callable[..., object], name: str, kwargs: dict[str, object]) -> None:
    """Checks the options of a wrapper before its constructor runs."""
    try:
        inspect.signature(wrapper).bind(None, **kwargs)
    except TypeError as error:
        options = list(inspect.signature(wrapper).parameters.values())[1:]
        raise UsageError(
            f"model wrapper '{name}': {error}",
            hint=f"valid options: {', '.join(map(str, options)) or 'none'}",
        ) from None


def _kind(model: object) -> str:
    return "the class" if isinstance(model, type) else "the function"
