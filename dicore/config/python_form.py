"""A config as a Python file that can be imported: exact values, laid out to be read."""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterator, Mapping
from typing import Any

from dicore.config.exact import scalar_type
from dicore.config.leaf import kin

__all__ = ["python_source"]

_WIDTH = 100


def python_source(variables: Mapping[str, Any], doc: str, *, formatted: bool) -> str:
    """Writes plain data as a module.

    Args:
        variables: What the module defines, by name.
        doc: Its docstring.
        formatted: One key a line, in the documents' `dict(key=value)` style; else one literal per
            top key.

    Raises:
        TypeError: something in it is no plain data.
    """
    write = _formatted if formatted else _compact
    bodies = [f"{name} = {write(value)}" for name, value in variables.items()]
    text = "\n\n".join(bodies)
    imports = [
        line
        for line, needed in (
            ("from math import inf, nan", any(map(_is_endless, _scalars(variables)))),
            ("import numpy", any(map(scalar_type, _scalars(variables)))),
        )
        if needed
    ]
    head = f'"""{doc}"""'
    return "\n\n".join(filter(None, [head, "\n".join(imports), text])) + "\n"


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from (*_scalars(key), *_scalars(item))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _scalars(item)
    else:
        yield value


def _is_endless(value: Any) -> bool:
    plain = kin(value)
    return isinstance(plain, float) and not math.isfinite(plain)


def _literal(value: Any) -> str:
    if name := scalar_type(value):
        return f"numpy.{name}({_literal(kin(value))})"
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, float):
        return _float(float(value))
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, str):
        return str.__repr__(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(k)}: {_literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, tuple):
        comma = "," if len(value) == 1 else ""
        return f"({', '.join(map(_literal, value))}{comma})"
    raise TypeError(f"{type(value).__name__} {value!r} is no plain data")


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)


def _compact(value: Any) -> str:
    if not isinstance(value, Mapping) or not value:
        return _literal(value)
    lines = (f"    {_literal(key)}: {_literal(item)},\n" for key, item in value.items())
    return "{\n" + "".join(lines) + "}"


def _formatted(value: Any, indent: int = 0) -> str:
    short = _literal(value)
    if isinstance(value, Mapping) and value:
        return _formatted_dict(value, indent)
    if isinstance(value, list | tuple) and len(short) + indent > _WIDTH - 20:
        inner = "".join(f"{' ' * (indent + 4)}{_formatted(item, indent + 4)},\n" for item in value)
        opening, closing = ("[", "]") if isinstance(value, list) else ("(", ")")
        return f"{opening}\n{inner}{' ' * indent}{closing}"
    return short


def _formatted_dict(value: Mapping[Any, Any], indent: int) -> str:
    plain_keys = all(
        isinstance(key, str) and key.isascii() and key.isidentifier() and not keyword.iskeyword(key)
        for key in value
    )
    pad = " " * (indent + 4)
    if plain_keys:
        lines = (f"{pad}{key}={_formatted(item, indent + 4)},\n" for key, item in value.items())
        return "dict(\n" + "".join(lines) + " " * indent + ")"
    lines = (
        f"{pad}{_literal(key)}: {_formatted(item, indent + 4)},\n" for key, item in value.items()
    )
    return "{\n" + "".join(lines) + " " * indent + "}"
