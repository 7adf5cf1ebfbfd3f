"""A config class as people read it: its defaults as a dict, its options as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dicore.config.declare import REQUIRED, ComponentConfig, Section
from dicore.config.fields import Field, fields_of
from dicore.config.leaf import type_name
from dicore.config.plain import join, plain
from dicore.config.signature import config_class

__all__ = ["Option", "default_config", "options_of"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a component.

    Args:
        path: Its path below the component.
        type: The type of its value; for a slot, the kind that it takes.
        default: Its default; `REQUIRED` if somebody must give it.
        help: What it means.
        range: Bounds or choices (`>= 1`, `one of 'a', 'b'`); "" if free.
        unit: Unit of the value.
        declared_by: The class whose default it is.
    """

    path: str
    type: str
    default: Any
    help: str
    range: str
    unit: str
    declared_by: str


def default_config(cls: type[Section]) -> dict[str, Any]:
    """Returns the defaults of a config class, those of its bases first, as nested dicts.

    Args:
        cls: A config class, or a component class that names its own in `config_class`.

    Returns:
        The options in order of declaration, stamped with `cfg_type`, the class's name. What must be
        given, and slots left to the installed packages, are missing. Compiling the dict gives the
        defaults again.
    """
    cls = cls if issubclass(cls, Section) else config_class(cls, "")
    values: dict[str, Any] = {}
    for name, field in fields_of(cls).items():
        value = _default(field)
        if value is not REQUIRED and not (name == "type" and value == ""):
            values[name] = value
    return {"cfg_type": cls.__name__, **values}


def options_of(cls: type[Section], path: str = "") -> Iterator[Option]:
    """Yields every option of a config class and its sections, for tables."""
    for name, field in fields_of(cls).items():
        at = join(path, name)
        if "section" in field.metadata:
            yield from options_of(field.metadata["section"], at)
        elif not (name == "type" and issubclass(cls, ComponentConfig)):
            default = _default(field)
            yield Option(
                path=at,
                type=_type_of(field),
                default=None if default is REQUIRED and not field.is_leaf else default,
                help=field.metadata.get("help", ""),
                range=_range_of(field),
                unit=field.metadata.get("unit", ""),
                declared_by=field.declared_by,
            )


def _default(field: Field) -> Any:
    metadata = field.metadata
    if "section" in metadata:
        return default_config(metadata["section"])
    if "component" in metadata:
        default = metadata["component_default"]
        if default is None:
            return REQUIRED
        return {"type": default} if isinstance(default, str) else plain(default)
    if "components" in metadata:
        return plain(list(metadata["component_default"]))
    return field.default()


def _type_of(field: Field) -> str:
    if "component" in field.metadata:
        return str(field.metadata["component"])
    if "components" in field.metadata:
        return f"list of {field.metadata['components']}"
    return type_name(field.hint)


def _range_of(field: Field) -> str:
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    bounds = field.metadata.get("bounds", {})
    said = [f"{signs[name]} {bound}" for name, bound in bounds.items()]
    if choices := field.metadata.get("choices"):
        said.append(f"one of {', '.join(repr(choice) for choice in choices)}")
    return ", ".join(said)
