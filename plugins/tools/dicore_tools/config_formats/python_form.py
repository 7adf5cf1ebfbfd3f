"""Writes a config as an importable, readable Python file with exact values."""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterator, Mapping
from typing import Any

from dicore.config.convert import to_builtin
from dicore.config.layers import CREATE_PATHS
from dicore.config.paths import plain
from dicore.config.sections import Compiled
from dicore.data.json_codec import scalar_type

__all__ = ["FORMATTED", "TOTAL", "WHOLE", "python_source", "run_files"]

TOTAL = "total_config.py"
FORMATTED = "formatted_total_config.py"
WHOLE = "The whole config of one run, as compiled by dicore"
"""How the docstring begins of what a run wrote."""

_WIDTH = 100


def run_files(compiled: Compiled, record: Mapping[str, Any]) -> dict[str, str]:
    """Returns `total_config.py` and `formatted_total_config.py` of a run."""
    doc = f"{WHOLE} {record['dicore']}."
    main, create = _pair(plain(record["config"]))
    variables = {"main_config": main, "create_config": create}
    return {
        TOTAL: python_source(variables, doc, formatted=False),
        FORMATTED: python_source(variables, doc, formatted=True),
    }


def _pair(main: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits a config into DI-engine's two dicts, in place: all values, and what to build."""
    create: dict[str, Any] = {}
    for part, path in CREATE_PATHS.items():
        node: Any = main
        for key in path.split("."):
            node = node.get(key) if isinstance(node, Mapping) else None
        if isinstance(node, dict) and "type" in node:
            create[part] = {"type": node.pop("type")}
    return main, create


def python_source(variables: Mapping[str, object], doc: str, *, formatted: bool) -> str:
    """Writes plain data as a module.

    Args:
        variables: What the module defines, by name.
        doc: Its docstring.
        formatted: One key a line, as `dict(key=value)`; else one literal per top key.

    Raises:
        TypeError: something in it is not plain data.
    """
    write = _formatted if formatted else _compact
    bodies = [f"{name} = {write(value)}" for name, value in variables.items()]
    text = "\n\n".join(bodies)
    scalars = [*_scalars(variables)]
    imports = [
        line
        for line, needed in (
            ("from math import inf, nan", any(map(_is_endless, scalars))),
            ("import numpy", any(map(scalar_type, scalars))),
        )
        if needed
    ]
    head = f'"""{doc}"""'
    return "\n\n".join(filter(None, [head, "\n".join(imports), text])) + "\n"


def _scalars(value: Any) -> Iterator[object]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from (*_scalars(key), *_scalars(item))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _scalars(item)
    else:
        yield value


def _is_endless(value: Any) -> bool:
    plain = to_builtin(value)
    return isinstance(plain, float) and not math.isfinite(plain)


def _literal(value: Any) -> str:
    if name := scalar_type(value):
        return f"numpy.{name}({_literal(to_builtin(value))})"
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
    raise TypeError(f"{type(value).__name__} {value!r} is not plain data")


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
        f"{pad}{_literal(key)}: {_formatted(item, indent - 4)},\n" for key, item in value.items()
    )
    return "{\n" + "".join(lines) + " " * indent + "}"
