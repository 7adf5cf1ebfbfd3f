"""Strict conversion of values to declared types, without rounding or guessing.

Conversions without loss only: an int where a float is declared, numeric text (`1e-3`, `1e5`) where
a number is, `64,64` where a list is, and a numpy scalar where its Python type is declared.
"""

from __future__ import annotations

import os
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeVar, Union

from dicore.config.redact import (
    REDACTED,
    is_whole,
    names_in,
    reads_variable,
    redacted_paths,
    resolve,
    texts_in,
)
from dicore_registry import code_paths
from dicore_registry.importing import STRANGE

_FLOAT_TEXT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?\.?inf", re.IGNORECASE)
_COUNT_TEXT = re.compile(r"[-+]?\d{1,15}[eE]\+?\d{1,2}")
_LISTS = (list, tuple)
_LONGEST_REPR = 80
_WORDS = {"null": None, "none": None, "~": None, "": "", "true": True, "false": False}
_INT = re.compile(r"[-+]?[0-9]+(_[0-9]+)*")
_FLOAT = re.compile(
    r"[-+]?([0-9][0-9_]*\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.?(inf|nan)", re.IGNORECASE
)
_STRUCTURED = ("[", "{", '"', "'")


class Mismatch(Exception):  # noqa: N818 - a finding to collect, not an error to show
    """Values that do not have the declared type, as `(path, message)` pairs."""

    def __init__(self, findings: Sequence[tuple[str, str]]) -> None:
        super().__init__(findings)
        self.findings = tuple(findings)


def convert(value: object, hint: object, path: str = "") -> Any:
    """Returns `value` as the type `hint`, containers copied."""
    return _converter(hint)(to_builtin(value), path)


def to_builtin(value: object) -> object:
    """Returns the Python value of a numpy scalar, and anything else unchanged."""
    if isinstance(value, str):
        return str.__str__(value)  # numpy's own `item` loses trailing NULs
    if hasattr(value, "dtype") and getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    return value


def describe_value(value: object) -> str:
    """Describes a value for a message: `str 'apple'`, `None`."""
    return "None" if value is None else f"{type(value).__name__} {shortened(value)}"


def shortened(value: object) -> str:
    """Returns the `repr` of a value, cut to one line."""
    try:
        text = repr(value)
    except ValueError:  # more digits than Python writes
        return "a number too long to write"
    return f"{text[:_LONGEST_REPR]}..." if len(text) > _LONGEST_REPR else text


def type_name(hint: object) -> str:
    """Describes a type for a message: `int`, `list[int]`, `int or None`."""
    if hint is None or hint is type(None):
        return "None"
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return type_name(args[0])
    if origin is Literal:
        return f"one of {', '.join(repr(arg) for arg in args)}"
    if origin in (Union, types.UnionType):
        return " or ".join(type_name(arg) for arg in args)
    name = getattr(origin or hint, "__name__", str(hint))
    if not args:
        return str(name)
    inner = ", ".join("..." if arg is Ellipsis else type_name(arg) for arg in args)
    return f"{name}[{inner}]"


def is_leaf_type(hint: object) -> bool:
    """Returns whether a config can hold values of this type (or of one member of a Union)."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return is_leaf_type(args[0])
    if origin in (Union, types.UnionType):
        return any(arg is not type(None) and is_leaf_type(arg) for arg in args)
    if origin is Literal or hint is Any:
        return True
    if origin in _CONTAINERS:
        return all(arg is Ellipsis or is_leaf_type(arg) for arg in args)
    return hint in _SCALARS or hint in _CONTAINERS


_Converter = Callable[[Any, str], Any]


def _mismatch(hint: object, value: object, path: str) -> Mismatch:
    return Mismatch([(path, f"expected {type_name(hint)}, got {describe_value(value)}")])


def _scalar(kind: type, value: object, path: str) -> object:
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return str.__str__(value) if kind is str else kind(value)
    raise _mismatch(kind, value, path)


def _none(value: object, path: str) -> None:
    if value is not None:
        raise _mismatch(None, value, path)


def _float(value: object, path: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise _mismatch(float, value, path) from None
    if isinstance(value, str) and _FLOAT_TEXT.fullmatch(value):
        return float(value.lower().replace(".inf", "inf"))
    raise _mismatch(float, value, path)


def _any(value: Any, path: str) -> object:
    if isinstance(value, Mapping):
        return {key: _any(to_builtin(item), f"{path}.{key}") for key, item in value.items()}
    if type(value) in _LISTS:
        return type(value)(_any(to_builtin(item), f"{path}[{i}]") for i, item in enumerate(value))
    if value is None or isinstance(value, bool | int | float | str):
        return value
    wanted = "plain data (None, bool, int, float, str, list, tuple, dict)"
    raise Mismatch([(path, f"expected {wanted}, got {describe_value(value)}")])


def _items(
    hint: object, value: Sequence[object], item_hints: Sequence[object], path: str
) -> list[object]:
    if len(value) != len(item_hints):
        message = f"expected {type_name(hint)}, got {len(value)} items: {describe_value(value)}"
        raise Mismatch([(path, message)])
    pairs = enumerate(zip(value, item_hints, strict=True))
    return _each(lambda at, pair: convert(pair[0], pair[1], f"{path}[{at}]"), pairs)


def _each(
    convert_one: Callable[..., object], entries: Iterable[tuple[object, object]]
) -> list[Any]:
    """Converts all entries; the findings of all of them are raised together."""
    converted: list[object] = []
    findings: list[tuple[str, str]] = []
    for entry in entries:
        try:
            converted.append(convert_one(*entry))
        except Mismatch as wrong:
            findings.extend(wrong.findings)
    if findings:
        raise Mismatch(findings)
    return converted


def _int(value: object, path: str) -> int:
    if isinstance(value, str) and _COUNT_TEXT.fullmatch(value):
        return int(float(value))
    return typing.cast(int, _scalar(int, value, path))


def _sequence(hint: object, value: object, path: str) -> object:
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if isinstance(value, str) and "," in value:  # 64,64 or (64, 64) on the command line
        value = [parse_value(item.strip()) for item in value.strip("()").split(",")]
    if not isinstance(value, _LISTS):
        raise _mismatch(hint, value, path)
    fixed = origin is tuple and args and args[-1] is not Ellipsis
    hints = args if fixed else [args[0] if args else Any] * len(value)
    return (list if origin is list else tuple)(_items(hint, value, hints, path))


def _mapping(hint: object, value: object, path: str) -> object:
    if not isinstance(value, Mapping):
        raise _mismatch(hint, value, path)
    key_hint, item_hint = typing.get_args(hint) or (Any, Any)

    def convert_one(key: Any, item: object) -> tuple[Any, Any]:
        return convert(key, key_hint, f"{path} key"), convert(item, item_hint, f"{path}.{key}")

    return dict(_each(convert_one, value.items()))


def _literal(hint: object, value: object, path: str) -> object:
    args = typing.get_args(hint)
    for arg in args:
        if type(arg) is type(value) and arg == value:
            return arg
    if value is None and "none" in args:  # the word, as a command line reads it
        return "none"
    raise Mismatch([(path, f"expected {type_name(hint)}, got {value!r}")])


def _union(hint: object, value: object, path: str) -> object:
    members = typing.get_args(hint)
    if type(value) in members:
        return convert(value, type(value), path)
    containers = _LISTS if isinstance(value, _LISTS) else (dict,)
    findings = []
    for member in members:
        try:
            return convert(value, member, path)
        except Mismatch as wrong:
            if isinstance(value, containers) and _origin(member) in containers:
                findings.append(wrong)
    if len(findings) == 1:
        raise findings[0]
    raise _mismatch(hint, value, path)


def _instance(hint: object, value: object, path: str) -> object:
    if isinstance(hint, type) and not isinstance(value, hint):
        raise _mismatch(hint, value, path)
    return value


def _origin(hint: object) -> object:
    return _CONTAINERS.get(typing.get_origin(hint) or hint)


_SCALARS: dict[object, _Converter] = {
    int: _int,
    bool: partial(_scalar, bool),
    str: partial(_scalar, str),
    float: _float,
    None: _none,
    type(None): _none,
}
_CONTAINERS: dict[object, type] = {
    list: list,
    tuple: tuple,
    dict: dict,
    Sequence: tuple,
    Mapping: dict,
}


@cache
def _converter(hint: object) -> _Converter:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint in _SCALARS:
        return _SCALARS[hint]
    if hint is Any or isinstance(hint, TypeVar):
        return _any
    if origin is Annotated:
        return _converter(args[0])
    if origin is Literal:
        return partial(_literal, hint)
    if origin in (Union, types.UnionType):
        return partial(_union, hint)
    container = _origin(hint)
    if container is dict:
        return partial(_mapping, hint)
    return partial(_sequence if container else _instance, hint)


def parse_value(text: str) -> object:
    """Reads null, booleans, numbers (`1e-3`, `inf`), lists, dicts and quoted or bare text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INT.fullmatch(text):
        return int(text)
    if _COUNT_TEXT.fullmatch(text):
        return int(float(text))
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    if not text.startswith(_STRUCTURED) or text.count("[") + text.count("{") > 1000:  # a hang
        return text
    import yaml

    try:
        return _from_node(yaml.compose(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(getattr(error, "problem", None) or error)) from error


def _from_node(node: Any) -> object:
    """Turns a YAML node into a value: quoted text stays text, bare words are read as above."""
    if node.id == "sequence":
        return [_from_node(item) for item in node.value]
    if node.id == "mapping":
        return {key.value: _from_node(item) for key, item in node.value}
    return node.value if node.style else parse_value(node.value)


def resolve_value(value: object, hint: object, path: str, references: dict[str, str]) -> object:
    """Looks up the references in a layer's value and converts it to the type `hint`."""
    if paths := list(redacted_paths(value, path)):
        text = f"was {REDACTED} when it was saved; give it again, best as ${{env:NAME}}"
        raise Mismatch([(at, text) for at in paths])
    if not names_in(value):
        return convert(value, hint, path)
    read = [(at, text) for at, text in texts_in(value, path) if reads_variable(text)]
    if refused := [at for at, text in read if not code_paths.allows(text)]:
        raise Mismatch([(at, f"reads an environment variable, and {STRANGE}") for at in refused])
    missing: list[tuple[str, str]] = []

    def find(name: str, at: str) -> str:
        if name not in os.environ:
            missing.append((at, f"the environment variable '{name}' is not set"))
        return os.environ.get(name, "")

    text = resolve(value, path, find, noted=references)
    if missing:
        raise Mismatch(missing)
    try:
        return convert(text, hint, path)
    except Mismatch:
        if not (isinstance(value, str) and is_whole(value)):
            raise
    try:
        return convert(parse_value(text), hint, path)
    except (Mismatch, ValueError):
        message = f"expected {type_name(hint)}, which {value} is not"
        raise Mismatch([(path, message)]) from None
