"""Configs by path: flatten, look up, replace, merge and compare frozen configs and plain trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import attrs

from dicore.config.convert import to_builtin
from dicore.config.schema import REQUIRED, ComponentConfig, Field, Section, fields_of

S = TypeVar("S", bound=Section)
Keys = tuple[str | int, ...]

MISSING: Final = "(not there)"
"""Stands for the value of an option that only the other config has."""

_ABSENT = object()


def to_dict(cfg: Section) -> dict[str, Any]:
    """Returns a config as nested dicts that share no memory with it; compiling restores it."""
    values: dict[str, object] = {}
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


def leaves(cfg: Section, prefix: Keys = ()) -> Iterator[tuple[Keys, Field, object]]:
    """Yields path, declaration and value of all that is not a section; empty slots too."""
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
    """Yields every section below `cfg`, parts before the whole, and last `cfg` itself."""
    for name in fields_of(type(cfg)):
        value, keys = getattr(cfg, name), (*prefix, name)
        if isinstance(value, Section):
            yield from sections(value, keys)
        elif isinstance(value, tuple):
            for index, item in enumerate(value):
                if isinstance(item, Section):
                    yield from sections(item, (*keys, index))
    yield prefix, cfg


def lookup(cfg: object, path: str, default: object = None) -> object:
    """Returns the value at a dotted path of a config or of nested dicts, or `default`."""
    value = cfg
    for key in path.split("."):
        if isinstance(value, Section):
            value = getattr(value, key, _ABSENT) if key in fields_of(type(value)) else _ABSENT
        else:
            value = value.get(key, _ABSENT) if isinstance(value, Mapping) else _ABSENT
        if value is _ABSENT:
            return default
    return value


def replace(cfg: S, keys: Keys, value: object) -> S:
    """Returns a copy of a frozen config with one value replaced."""
    name, *rest = keys
    assert isinstance(name, str), "the first key of a section is a name"
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
    """Returns a path as messages write it: `policy.learn.learner.hook[0].priority`."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def join(path: str, key: object) -> str:
    """Returns the path of `key` below `path`."""
    return f"{path}.{key}" if path else str(key)


def merge(low: object, high: object) -> Any:
    """Returns `low` overridden by `high`: dicts are merged, all else (lists, None) is replaced.

    The result shares no memory with its inputs.
    """
    if not (isinstance(low, Mapping) and isinstance(high, Mapping)):
        return plain(high)
    merged = {key: plain(value) for key, value in low.items()}
    for key, value in high.items():
        merged[key] = merge(low[key], value) if key in low else plain(value)
    return merged


def combine(
    first: object, second: object, path: str, contradiction: Callable[[str, object, object], None]
) -> object:
    """Joins two trees of equal rank, which must agree on every value that both give.

    A name and a section are equivalent: `"dqn"` is `{"type": "dqn"}`. The `first` one may hold
    defaults (see `default_config`) of another component, which do not apply.
    """
    if isinstance(first, Mapping) or isinstance(second, Mapping):
        first, second = _as_section(first), _as_section(second)
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        own = first.get("type") if "cfg_type" in first else None
        if own is not None and second.get("type", own) != own:
            first = {}
        joined = dict(first)
        for key, value in second.items():
            known = key in joined
            at = join(path, key)
            joined[key] = combine(joined[key], value, at, contradiction) if known else value
        return joined
    one, other = to_builtin(first), to_builtin(second)
    same_kind = isinstance(one, bool) is isinstance(other, bool)
    if not (same_kind and (one is other or one == other)):
        contradiction(path, first, second)
    return first


def _as_section(value: object) -> object:
    if value is None:
        return {}
    return {"type": value} if isinstance(value, str | type) else value


def differences(one: Any, other: Any) -> dict[str, tuple[object, object]]:
    """Returns both values of every option that differs in two compiled configs, by path.

    Where two components are of different types, `type` and the options of both are listed.
    """
    return tree_differences(to_dict(one.cfg), to_dict(other.cfg))


def tree_differences(
    one: Mapping[str, object], other: Mapping[str, object]
) -> dict[str, tuple[object, object]]:
    """Returns both values of every option that differs in two nested dicts, by path."""
    return dict(_differing(one, other, ""))


def _differing(one: Any, other: Any, path: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys([*one, *other]):
            yield from _differing(one.get(key, MISSING), other.get(key, MISSING), join(path, key))
    elif _has_sections(one) and _has_sections(other) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other, strict=True)):
            yield from _differing(*pair, f"{path}[{index}]")
    elif not _equal(one, other):
        yield path, (one, other)


def _has_sections(value: object) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value)


def _equal(one: object, other: object) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return not any(_differing(one, other, ""))
    return type(one) is type(other) and (one == other or (one != one and other != other))  # noqa: PLR0124 - NaN
