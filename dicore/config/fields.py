"""What compile knows of a config class: its options in order, each with its resolved type."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import attrs

from dicore.config.declare import REQUIRED, Section

__all__ = ["Field", "fields_of", "label_of", "resolve_hint"]

_STRUCTURE = frozenset({"section", "component", "components"})


@dataclass(frozen=True, slots=True)
class Field:
    """One option, section or slot of a config class.

    Args:
        name: Its key.
        hint: The type its value must have.
        metadata: What `option`, `section`, `component` or `components` wrote down.
        declared_by: Name of the class whose default counts.
        default: Makes the default value; `REQUIRED` if somebody has to give one.
    """

    name: str
    hint: Any
    metadata: Mapping[str, Any]
    declared_by: str
    default: Callable[[], Any]

    @property
    def follows(self) -> str | None:
        """The path whose value this option takes where nobody gives it."""
        return self.metadata.get("follows")


def fields_of(cls: type[Section]) -> Mapping[str, Field]:
    """Returns the options of a config class by name, in order of declaration; read once per class.

    Raises:
        TypeError: an option's type is written in a way that cannot be resolved at run time.
    """
    known: Any = cls
    return _read_fields(known)


@cache
def _read_fields(cls: Any) -> Mapping[str, Field]:
    fields: dict[str, Field] = {}
    for attribute in attrs.fields(cls):
        owner: Any = _declaring_class(cls, attribute.name)
        fields[attribute.name] = Field(
            name=attribute.name,
            hint=_hint_of(owner, attribute.name, bool(attribute.metadata.keys() & _STRUCTURE)),
            metadata=attribute.metadata,
            declared_by=label_of(owner),
            default=_default_of(attribute),
        )
    return MappingProxyType(fields)


def label_of(cls: type) -> str:
    """Returns the name people know a config class by: its own, or its target's."""
    target = getattr(cls, "_target", None)
    return str(getattr(target, "__name__", cls.__name__))


@cache
def _hint_of(owner: Any, name: str, is_structure: bool) -> Any:
    """Resolves a type where it was written; once, however many classes inherit the option."""
    written = inspect.get_annotations(owner).get(name, Any)
    module = sys.modules.get(owner.__module__)
    try:
        return resolve_hint(written, vars(module) if module else {})
    except NameError as error:
        if is_structure:
            return Any
        where = f"{owner.__module__}.{owner.__qualname__}.{name}"
        raise TypeError(f"{where}: its type {written!r} cannot be resolved: {error}") from None


def resolve_hint(written: Any, names: dict[str, Any]) -> Any:
    """Returns the type that an annotation stands for.

    Raises:
        NameError: it names something that exists for type checkers only.
    """
    holder = type("_", (), {"__annotations__": {"it": written}})
    return typing.get_type_hints(holder, names)["it"]


def _declaring_class(cls: type, name: str) -> type:
    for owner in cls.__mro__:
        if name in inspect.get_annotations(owner):
            return owner
    return cls


def _default_of(attribute: attrs.Attribute[Any]) -> Callable[[], Any]:
    default = attribute.default
    if default is attrs.NOTHING:
        return lambda: REQUIRED
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type] # a class at run time
        return typing.cast("Callable[[], Any]", default.factory)  # type: ignore[union-attr]
    return lambda: default
