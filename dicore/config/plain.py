"""A config as plain data, and reading and replacing single values of a frozen one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import attrs

from dicore.config.declare import REQUIRED, ComponentConfig, Section
from dicore.config.fields import Field, fields_of

__all__ = [
    "dotted",
    "flatten",
    "join",
    "leaves",
    "lookup",
    "plain",
    "replace",
    "sections",
    "to_dict",
]

S = TypeVar("S", bound=Section)
Keys = tuple[str | int, ...]

_MISSING = object()


def to_dict(cfg: Section) -> dict[str, Any]:
    """Returns a config as nested dicts of its own memory; compiling them gives it back."""
    values: dict[str, Any] = {}
    for name in fields_of(type(cfg)):
        value = getattr(cfg, name)
        if name == "type" and isinstance(cfg, ComponentConfig):
            values = {"type": value or type(cfg), **values}
        elif value is not REQUIRED:
            values[name] = plain(value)
    return values


def plain(value: Any) -> Any:
    """Copies nested dicts, lists and tuples, and turns sections into dicts."""
    if isinstance(value, Section):
        return to_dict(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(plain(item) for item in value)
    return value


def flatten(cfg: Section) -> dict[str, Any]:
    """Returns every value by its path (`policy.learn.batch_size`, `policy.x.hook[0].priority`)."""
    return {dotted(keys): value for keys, _, value in leaves(cfg)}


def leaves(cfg: Section, prefix: Keys = ()) -> Iterator[tuple[Keys, Field, Any]]:
    """Yields path, declaration and value of everything that is no section; empty slots too."""
    for name, field in fields_of(type(cfg)).items():
        value, keys = getattr(cfg, name), (*prefix, name)
        if isinstance(value, Section):
            yield from leaves(value, keys)
        elif "components" in field.metadata and value:
            for index, item in enumerate(value):
                if isinstance(item, Section):
                    yield from leaves(item, (*keys, index))
        else:
            yield keys, field, value


def sections(cfg: Section, prefix: Keys = ()) -> Iterator[tuple[Keys, Section]]:
    """Yields every section below and at last `cfg` itself: parts before the whole."""
    for name in fields_of(type(cfg)):
        value, keys = getattr(cfg, name), (*prefix, name)
        if isinstance(value, Section):
            yield from sections(value, keys)
        elif isinstance(value, tuple):
            for index, item in enumerate(value):
                if isinstance(item, Section):
                    yield from sections(item, (*keys, index))
    yield prefix, cfg


def lookup(cfg: Any, path: str, default: Any = None) -> Any:
    """Returns the value at a dotted path of a config or of nested dicts, or `default`."""
    value = cfg
    for key in path.split("."):
        if isinstance(value, Section):
            value = getattr(value, key, _MISSING) if key in fields_of(type(value)) else _MISSING
        else:
            value = value.get(key, _MISSING) if isinstance(value, Mapping) else _MISSING
        if value is _MISSING:
            return default
    return value


def replace(cfg: S, keys: Keys, value: Any) -> S:
    """Returns a copy of a frozen config with one value replaced."""
    name, *rest = keys
    assert isinstance(name, str), "a section is entered by name"
    current = getattr(cfg, name)
    if not rest:
        changed = value
    elif isinstance(rest[0], int):
        index = rest[0]
        item = replace(current[index], tuple(rest[1:]), value)
        changed = (*current[:index], item, *current[index + 1 :])
    else:
        changed = replace(current, tuple(rest), value)
    return attrs.evolve(cfg, **{name: changed})


def dotted(keys: Keys) -> str:
    """Writes a path the way messages do: `policy.learn.learner.hook[0].priority`."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def join(path: str, key: object) -> str:
    """Returns the path of `key` below `path`."""
    return f"{path}.{key}" if path else str(key)
