"""Spaces as text inside files of data; reading one runs no code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

__all__ = ["space_from", "space_text"]


def space_text(space: Any) -> str | None:
    """Returns a space as JSON; None for other kinds than the six that are known here."""
    data = _data(space)
    return None if data is None else json.dumps(data)


def space_from(text: str) -> Any:
    """Returns the space that `space_text` wrote.

    Raises:
        ValueError: the text is something else.
    """
    try:
        data = json.loads(text)
        return _READ[data["type"]](data)
    except (KeyError, TypeError, AssertionError) as error:
        raise ValueError(f"not a space: {text[:80]}") from error


def _data(space: Any) -> dict[str, Any] | None:
    match space:
        case spaces.Box():
            low, high = (_bound(each) for each in (space.low, space.high))
            shape = list(space.shape)
            data = {"low": low, "high": high, "shape": shape, "dtype": str(space.dtype)}
        case spaces.Discrete():
            data = {"n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            data = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
        case spaces.MultiBinary():
            data = {"n": np.array(space.n).tolist()}
        case spaces.Dict():
            data = {"spaces": {key: _data(each) for key, each in space.spaces.items()}}
        case spaces.Tuple():
            data = {"spaces": [_data(each) for each in space.spaces]}
        case _:
            return None
    below = data.get("spaces", ())
    if None in (below.values() if isinstance(below, dict) else below):
        return None
    return {"type": type(space).__name__, **data}


def _bound(values: Any) -> Any:
    """Returns the bounds of a box, as one number if all are equal."""
    flat = values.ravel()
    if flat.size and (flat == flat[0]).all():
        return flat[0].item()
    return values.tolist()


def _box(data: dict[str, Any]) -> spaces.Space[Any]:
    dtype, shape = np.dtype(data["dtype"]), tuple(data["shape"])
    low, high = (np.broadcast_to(np.array(data[k], dtype), shape) for k in ("low", "high"))
    return spaces.Box(low.copy(), high.copy(), shape, dtype.type)  # type: ignore[arg-type]


_READ: dict[str, Callable[[dict[str, Any]], spaces.Space[Any]]] = {
    "Box": _box,
    "Discrete": lambda data: spaces.Discrete(data["n"], start=data["start"]),
    "MultiDiscrete": lambda data: spaces.MultiDiscrete(data["nvec"], start=data["start"]),
    "MultiBinary": lambda data: spaces.MultiBinary(data["n"]),
    "Dict": lambda data: spaces.Dict(
        {key: _READ[each["type"]](each) for key, each in data["spaces"].items()}
    ),
    "Tuple": lambda data: spaces.Tuple([_READ[each["type"]](each) for each in data["spaces"]]),
}
