"""Options of a component: path, type, default, range, unit and help."""

from __future__ import annotations

import inspect
import math
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from dicore.config.schema import REQUIRED, ComponentConfig, Field, Section, fields_of
from dicore.config.sections import RunConfig
from dicore_registry import Registry

__all__ = ["Option", "jsonable", "leaves", "options_of", "section_prefix"]

_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
_MODULES = re.compile(r"\b(?:typing|collections\.abc)\.")


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a component.

    Args:
        name: Path below the component's section.
        type: Type as text; for a slot, the component kind.
        default: Default value; None if `required`.
        required: Has no default; a preset, the env or the user must set it.
        range: Bounds (`>= 1`), or the option it follows; "" without.
        choices: Allowed values; empty without such a limit.
        unit: Unit of the value.
        help: Help text.
    """

    name: str
    type: str
    default: Any
    required: bool
    range: str
    choices: tuple[Any, ...]
    unit: str
    help: str

    def as_json(self, prefix: str) -> dict[str, Any]:
        """Returns the option as JSON types; `path` is its path in a complete config."""
        return {
            "path": prefix + self.name,
            "name": self.name,
            "type": self.type,
            "default": jsonable(self.default),
            "required": self.required,
            "range": self.range,
            "choices": [jsonable(choice) for choice in self.choices],
            "unit": self.unit,
            "help": self.help,
        }


def options_of(config_class: type[Section], registry: Registry) -> list[Option]:
    """Returns the options of a config class, including those of its sections.

    Args:
        config_class: The class.
        registry: Provides the default components of slots.
    """
    return list(_walk(config_class, "", registry))


def _walk(cls: type[Section], path: str, registry: Registry) -> Iterator[Option]:
    for field in fields_of(cls).values():
        name = path + field.name
        if "section" in field.metadata:
            yield from _walk(field.metadata["section"], f"{name}.", registry)
        elif not (field.name == "type" and issubclass(cls, ComponentConfig)):
            yield _option(field, name, registry)


def _option(field: Field, name: str, registry: Registry) -> Option:
    facts = field.metadata
    text, default = _type_text(field.hint), field.default()
    if kind := facts.get("component"):
        text, default = kind, facts["component_default"]
        if default is None and not facts.get("optional"):
            default = registry.default(kind) or REQUIRED
    elif kind := facts.get("components"):
        text, default = f"list of {kind}", facts["component_default"]
    choices = tuple(facts.get("choices") or ())
    if get_origin(field.hint) is Literal:
        choices = get_args(field.hint)
        text = " | ".join(dict.fromkeys(type(choice).__name__ for choice in choices))
    bounds = [f"{_SIGNS[sign]} {bound:g}" for sign, bound in facts.get("bounds", {}).items()]
    if field.follows:
        bounds.append(f"follows {field.follows}")
    return Option(
        name=name,
        type=text,
        default=None if default is REQUIRED else default,
        required=default is REQUIRED,
        range=", ".join(bounds),
        choices=choices,
        unit=facts.get("unit", ""),
        help=facts.get("help", ""),
    )


def _type_text(hint: Any) -> str:
    """Formats a type: `int`, `float | None`, `tuple[int, ...]`."""
    if get_origin(hint) in (Union, types.UnionType):
        return " | ".join(_type_text(each) for each in get_args(hint))
    return "None" if hint is type(None) else _MODULES.sub("", inspect.formatannotation(hint))


def section_prefix(section: str) -> str:
    """Returns the path prefix of options on the command line, with a trailing dot.

    Args:
        section: Path of the component in a config. Items of a list of components have no path, so
            their prefix is "".
    """
    cls: Any = RunConfig
    facts: Mapping[str, Any] = {}
    for part in section.split("."):
        field = fields_of(cls).get(part) if cls is not None else None
        if field is None:
            return ""
        facts = field.metadata
        cls = facts.get("section") or (field.hint if "component" in facts else None)
    return f"{section}." if "component" in facts else ""


def jsonable(value: Any) -> Any:
    """Converts a value to JSON types; other values become text."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return repr(value)


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields path and value of each leaf of nested dicts."""
    if not isinstance(tree, Mapping) or not tree:
        yield path, tree
        return
    for key, value in tree.items():
        yield from leaves(value, f"{path}.{key}" if path else str(key))
