"""One observation as a policy takes it: arrays of its space's dtype and shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dicore.errors import UsageError

__all__ = ["observation"]


def observation(space: Any, given: Any, path: str = "") -> Any:
    """Returns an observation with lists and tensors of it as arrays.

    Args:
        space: A space of gymnasium; Dict and Tuple are gone into.
        given: What is to be acted on.
        path: Where in the observation this is.

    Raises:
        UsageError: it has another shape or other keys than the space.
    """
    parts = getattr(space, "spaces", None)
    if isinstance(parts, Mapping):
        if not isinstance(given, Mapping) or set(given) != set(parts):
            got = sorted(given, key=str) if isinstance(given, Mapping) else type(given).__name__
            raise _unfit(path, f"expected the keys {[*parts]}, got {got}")
        return {key: observation(each, given[key], f"{path}.{key}") for key, each in parts.items()}
    if parts is not None:
        if not isinstance(given, list | tuple) or len(given) != len(parts):
            raise _unfit(path, f"expected {len(parts)} parts, got {given!r}")
        each = enumerate(zip(parts, given, strict=True))
        return tuple(observation(part, value, f"{path}.{i}") for i, (part, value) in each)
    return _array(space, given, path)


def _array(space: Any, given: Any, path: str) -> Any:
    import numpy as np

    shape = getattr(space, "shape", None)
    if shape is None:
        return given
    told = getattr(given, "detach", None)
    try:
        array = np.asarray(given if told is None else told().cpu(), space.dtype)
    except (TypeError, ValueError) as error:
        raise _unfit(path, f"{given!r} is no array of {space.dtype}: {error}") from None
    if array.shape != shape:
        raise _unfit(path, f"expected one of shape {[*shape]}, got {[*array.shape]}")
    return array


def _unfit(path: str, text: str) -> UsageError:
    return UsageError(
        f"observation{' ' if path else ''}{path.lstrip('.')}: {text}",
        hint="act() takes one observation, as the environment's reset() and step() give it",
    )
