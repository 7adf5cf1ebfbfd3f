"""JSON that gives back exactly what was written: inf, nan, tuples and numpy's own are tagged."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from dicore.config.leaf import kin

__all__ = ["decode", "dumps", "encode", "loads", "scalar_type"]

_FLOAT, _TUPLE, _NUMPY, _DICT = "__float__", "__tuple__", "__numpy__", "__dict__"
_ARRAY = "__array__"
_TAGS = frozenset({_FLOAT, _TUPLE, _NUMPY, _DICT, _ARRAY})
_NUMPY_KINDS = "biufU"
_EXACT_BYTES = 8


def dumps(value: Any) -> str:
    """Writes plain data as JSON (ASCII only, keys in their order).

    Raises:
        TypeError: something in it is no plain data; the text says where.
    """
    return json.dumps(encode(value), indent=2, allow_nan=False)


def encode(value: Any) -> Any:
    """Returns plain data with what JSON cannot say tagged (`{"__tuple__": [1, 2]}`).

    Raises:
        TypeError: something in it is no plain data; the text says where.
    """
    return _encode(value, "$")


def decode(tree: Any) -> Any:
    """Gives back what `encode` was given, from a tree that some parser has read.

    Raises:
        ValueError: a tag is used wrongly.
    """
    try:
        return _decoded(tree)
    except (AttributeError, TypeError) as error:
        raise ValueError(f"a tag is used wrongly: {error}") from error


def loads(text: str) -> Any:
    """Reads what `dumps` wrote, and any other JSON.

    Raises:
        ValueError: the text is no JSON, or a tag in it is used wrongly.
    """
    try:
        return json.loads(text, object_hook=_decode)
    except (AttributeError, TypeError) as error:
        raise ValueError(f"a tag is used wrongly: {error}") from error


def scalar_type(value: Any) -> str | None:
    """Returns the name of a numpy scalar's type (`float32`, `bool_`), None for anything else.

    Only types whose every value a Python scalar holds exactly; long doubles do not.
    """
    if type(value).__module__ != "numpy" or getattr(value, "shape", None) != ():
        return None
    dtype = value.dtype
    if dtype.kind not in _NUMPY_KINDS or (dtype.kind == "f" and dtype.itemsize > _EXACT_BYTES):
        return None
    return {"U": "str_", "b": "bool_"}.get(dtype.kind) or str(dtype.name)


def _encode(value: Any, path: str) -> Any:
    if name := scalar_type(value):
        return {_NUMPY: [name, _encode(kin(value), path)]}
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_FLOAT: str(float(value))}
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str.__str__(value)
    if is_array(value):
        return {_ARRAY: [str(value.dtype), _encode(value.tolist(), path)]}
    if isinstance(value, Mapping):
        return _encode_mapping(value, path)
    if isinstance(value, list | tuple):
        items = [_encode(item, f"{path}[{index}]") for index, item in enumerate(value)]
        return {_TUPLE: items} if isinstance(value, tuple) else items
    raise TypeError(f"{path}: {type(value).__name__} {value!r} is no plain data")


def _encode_mapping(value: Mapping[Any, Any], path: str) -> dict[str, Any]:
    pairs = [(key, _encode(item, f"{path}.{key}")) for key, item in value.items()]
    if all(type(key) is str and key not in _TAGS for key, _ in pairs):
        return dict(pairs)
    return {_DICT: [[_encode(key, f"{path} key"), item] for key, item in pairs]}


def is_array(value: Any) -> bool:
    """Says whether something is a numpy array of plain numbers or booleans."""
    if f"{type(value).__module__}.{type(value).__name__}" != "numpy.ndarray":
        return False
    exact = value.dtype.kind in "biuf" and value.dtype.itemsize <= _EXACT_BYTES
    return exact and value.ndim > 0 and (value.size > 0 or value.ndim == 1)


def _decoded(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_decoded(item) for item in tree]
    if isinstance(tree, dict):
        return _decode({key: _decoded(item) for key, item in tree.items()})
    return tree


def _decode(found: dict[Any, Any]) -> Any:
    if len(found) != 1:
        return found
    ((tag, value),) = found.items()
    if tag == _FLOAT:
        return float(value)
    if tag == _TUPLE:
        return tuple(value)
    if tag == _DICT:
        return {key: item for key, item in value}  # noqa: C416 - pairs come as lists
    if tag == _ARRAY:
        import numpy

        name, items = value
        array = numpy.array(items, dtype=numpy.dtype(str(name)))
        if not is_array(array):
            raise TypeError(f"{name} is no type of numbers")
        return array
    if tag == _NUMPY:
        import numpy

        name, item = value
        scalar = getattr(numpy, name)
        if scalar_type(scalar()) != name:
            raise TypeError(f"{name} is no exact numpy scalar")
        return scalar(item)
    return found
