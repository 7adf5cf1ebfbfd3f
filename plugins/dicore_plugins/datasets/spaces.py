"""Spaces as text inside files of data; reading one runs no code."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from dicore.errors import UsageError
from dicore.values import Tree

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

__all__ = ["recorded_spaces", "space_from", "space_text"]

_LOG = logging.getLogger("dicore.data")
_MOST_NUMBERS = 1 << 25


def space_text(space: Space) -> str | None:
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
        if (size := _size(data)) > _MOST_NUMBERS:
            raise ValueError(f"a space of {size} numbers; expected at most {_MOST_NUMBERS}")
        return _READ[data["type"]](data)
    except (KeyError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        raise ValueError(f"not a space: {text[:80]}") from error


def _size(data: Mapping[str, Any]) -> int:
    """Returns how many numbers the bounds of a space have; a short text may claim any number."""
    below = data.get("spaces", ())
    parts = below.values() if isinstance(below, dict) else below
    return sum(map(_size, parts), math.prod(map(int, data.get("shape", (0,)))))


def _data(space: Space) -> dict[str, Any] | None:
    match space:
        case spaces.Box():
            low, high = (_bound(each) for each in (space.low, space.high))
            shape = list(space.shape)
            data: dict[str, Any] = {
                "low": low,
                "high": high,
                "shape": shape,
                "dtype": str(space.dtype),
            }
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


def _bound(values: Tree) -> object:
    """Returns the bounds of a box, as one number if all are equal."""
    flat = values.ravel()
    if flat.size and (flat == flat[0]).all():
        return flat[0].item()
    return values.tolist()


def _box(data: Mapping[str, Any]) -> Space:
    dtype, shape = np.dtype(data["dtype"]), tuple(data["shape"])
    if dtype.kind not in "biuf":  # a text or an array of any size
        raise TypeError(f"a box of {dtype}")
    low, high = (np.broadcast_to(np.array(data[k], dtype), shape) for k in ("low", "high"))
    return spaces.Box(low, high, shape, dtype.type)  # which copies them


_READ: dict[str, Callable[[dict[str, Any]], Space]] = {
    "Box": _box,
    "Discrete": lambda data: spaces.Discrete(data["n"], start=data["start"]),
    "MultiDiscrete": lambda data: spaces.MultiDiscrete(data["nvec"], start=data["start"]),
    "MultiBinary": lambda data: spaces.MultiBinary(data["n"]),
    "Dict": lambda data: spaces.Dict(
        {key: _READ[each["type"]](each) for key, each in data["spaces"].items()}
    ),
    "Tuple": lambda data: spaces.Tuple([_READ[each["type"]](each) for each in data["spaces"]]),
}


def recorded_spaces(dataset: Any) -> tuple[Space, Space]:
    """Returns observation and action space of a data set.

    Those that are not in the file follow from the columns: observations are unbounded, or from 0 to
    255 if they are bytes; actions are integers from 0 to the largest one, or numbers from -1 to 1,
    or from the least to the largest one if these exceed that.

    Raises:
        UsageError: actions are negative integers, or of another form.
    """
    obs, action = dataset.observation_space, dataset.action_space
    if obs is None or action is None:
        _LOG.warning("%s: the file has no spaces; they follow from its columns", dataset)
    if obs is None:
        obs = _observations(dataset.take([0])["obs"])
    return obs, _actions(dataset.actions) if action is None else action


def _observations(column: Tree) -> Space:
    if isinstance(column, dict):
        return spaces.Dict({key: _observations(each) for key, each in column.items()})
    shape, dtype = column.shape[1:], column.dtype
    if dtype == np.bool_:
        return spaces.MultiBinary(shape)
    if dtype.kind in "iu":
        return spaces.Box(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype.type)
    return spaces.Box(-np.inf, np.inf, shape, dtype.type)


def _actions(column: Tree) -> Space:
    if isinstance(column, dict):
        return spaces.Dict({key: _actions(each) for key, each in column.items()})
    if column.dtype.kind == "f":
        low, high = np.minimum(column.min(0), -1.0), np.maximum(column.max(0), 1.0)
        return spaces.Box(low, high, column.shape[1:], column.dtype.type)
    if column.dtype.kind not in "iu" or column.ndim > 2 or column.min() < 0:
        raise UsageError(
            f"the action space does not follow from actions {column.dtype}{[*column.shape]}",
            hint="write the file with its spaces (write_npz, write_hdf5)",
        )
    most = column.max(0) + 1
    return spaces.Discrete(int(most)) if column.ndim == 1 else spaces.MultiDiscrete(most)
