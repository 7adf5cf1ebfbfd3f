"""Makes JSON Schema from the type of an output.

Types are those of JSON, `list`, `dict[str, T]`, unions, `Literal`, `TypedDict` and `Annotated`, of
which the first text becomes the description.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)  # fmt: skip

__all__ = ["DIALECT", "json_schema", "members", "summaries"]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: Final[Mapping[object, Mapping[str, object]]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    types.NoneType: {"type": "null"},
    object: {},
}


def json_schema(hint: object, *, closed: bool = False) -> dict[str, object]:
    """Returns the JSON Schema of a type.

    Args:
        hint: The type.
        closed: Refuse members that are not declared. Readers should accept them: members may be
            added in later versions.

    Raises:
        TypeError: the type has no form in JSON.
    """
    definitions: dict[str, object] = {}
    make = _object if is_typeddict(hint) else _schema
    root = make(hint, definitions, closed=closed)
    more = {"$defs": dict(sorted(definitions.items()))} if definitions else {}
    return {"$schema": DIALECT, **root, **more}


def members(hint: object, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yields path, type and description of each member of an output.

    An item of a list is `path[]`, a value by name `path.*`.
    """
    text, hint = _described(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if path:
        yield path, " or ".join(dict.fromkeys(_names(hint))), text
    if is_typeddict(hint):
        for name, each in get_type_hints(hint, include_extras=True).items():
            _, member = _required(each)
            yield from members(member, f"{path}.{name}" if path else name)
    elif origin is list:
        yield from _below(inner[0], f"{path}[]")
    elif origin is dict:
        yield from _below(inner[1], f"{path}.*" if path else "*")
    elif origin in (Union, types.UnionType):
        for each in inner:
            yield from _below(each, path)


def summaries(hint: object) -> list[str]:
    """Returns the summaries of the objects that an output may be, or be a list of."""
    text, hint = _described(hint)
    if is_typeddict(hint):
        return [_summary(hint)]
    if text:
        return [f"{text[:1].upper()}{text[1:]}."]
    found = [line for each in get_args(hint) for line in summaries(each)]
    return (
        [f"An array: {line[:1].lower()}{line[1:]}" for line in found]
        if get_origin(hint) is list
        else found
    )


def _below(hint: object, path: str) -> Iterator[tuple[str, str, str]]:
    """Yields the members of an item, and the item itself only if something is said of it."""
    for found in members(hint, path):
        if found[0] != path or found[2]:
            yield found


def _schema(hint: object, definitions: dict[str, object], *, closed: bool) -> dict[str, object]:
    text, hint = _described(hint)
    told: dict[str, object] = {"description": text} if text else {}
    return {**_typed(hint, definitions, closed=closed), **told}


def _typed(hint: Any, definitions: dict[str, object], *, closed: bool) -> dict[str, object]:
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(inner)}
    if is_typeddict(hint):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}  # it may contain itself
            definitions[hint.__name__] = _object(hint, definitions, closed=closed)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    below = [_schema(each, definitions, closed=closed) for each in inner]
    if origin in (Union, types.UnionType):
        return {"anyOf": below}
    if origin is list:
        return {"type": "array", "items": below[0]}
    if origin is dict and inner[0] is str:
        return {"type": "object", "additionalProperties": below[1]}
    raise TypeError(f"{hint!r} has no form in JSON")


def _object(hint: Any, definitions: dict[str, object], *, closed: bool) -> dict[str, object]:
    hints = {
        name: _required(each) for name, each in get_type_hints(hint, include_extras=True).items()
    }
    return {
        "description": _summary(hint),
        "type": "object",
        "properties": {
            name: _schema(each, definitions, closed=closed) for name, (_, each) in hints.items()
        },
        "required": [name for name, (needed, _) in hints.items() if needed],
        **({"additionalProperties": False} if closed else {}),
    }


def _summary(hint: object) -> str:
    return (hint.__doc__ or "").split("\n", 1)[0]


def _required(hint: object) -> tuple[bool, object]:
    """Returns whether a member is always there, and its type."""
    if get_origin(hint) is NotRequired:
        return False, get_args(hint)[0]
    return True, hint


def _described(hint: object) -> tuple[str, object]:
    """Returns the description of a type, and the type."""
    if get_origin(hint) is not Annotated:
        return "", hint
    inner, text, *_ = get_args(hint)
    return str(text), inner


def _names(hint: object) -> Iterator[str]:
    """Yields the names of the types that a value may have in JSON."""
    _, hint = _described(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        for each in inner:
            yield from _names(each)
    elif origin is Literal:
        yield from (f'"{each}"' for each in inner)
    else:
        name = _PLAIN.get(hint, {}).get("type", "any value") if hint in _PLAIN else ""
        yield str(name) or ("array" if origin is list else "object")
