"""Wrapping a model by the registered name of a wrapper."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from dicore.errors import UsageError


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
    from dicore_plugins.model_wrappers.base import BaseWrapper

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
    import inspect

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
