"""What a component takes: its options with path, type, default, range, unit and help."""

from __future__ import annotations

import inspect
import math
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from dicore.config.declare import REQUIRED, ComponentConfig, Section
from dicore.config.fields import Field, fields_of
from dicore.config.sections import RunConfig
from dicore_registry import Registry

__all__ = ["Option", "jsonable", "options_of", "section_prefix"]

_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
_MODULES = re.compile(r"\b(?:typing|collections\.abc)\.")


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a component.

    Args:
        name: Its path below the component's section.
        type: Its type in words; for a slot, the kind that fills it.
        default: The default value; None where `required`.
        required: Somebody has to give it: preset, env or user.
        range: Its bounds (`>= 1`), or the option it follows; "" for none.
        choices: All values allowed; empty for no such limit.
        unit: Of the value.
        help: What it means.
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
        """Returns it in JSON's types, `path` being its path in a whole config."""
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
    """Returns the options of a config class, those of its sections among them.

    Args:
        config_class: The class, maybe made from a signature.
        registry: Says what fills a slot that the class leaves open.
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
    words, default = _words(field.hint), field.default()
    if kind := facts.get("component"):
        words, default = kind, facts["component_default"]
        if default is None and not facts.get("optional"):
            default = registry.default(kind) or REQUIRED
    elif kind := facts.get("components"):
        words, default = f"list of {kind}", facts["component_default"]
    choices = tuple(facts.get("choices") or ())
    if get_origin(field.hint) is Literal:
        choices = get_args(field.hint)
        words = " | ".join(dict.fromkeys(type(choice).__name__ for choice in choices))
    bounds = [f"{_SIGNS[sign]} {bound:g}" for sign, bound in facts.get("bounds", {}).items()]
    if field.follows:
        bounds.append(f"follows {field.follows}")
    return Option(
        name=name,
        type=words,
        default=None if default is REQUIRED else default,
        required=default is REQUIRED,
        range=", ".join(bounds),
        choices=choices,
        unit=facts.get("unit", ""),
        help=facts.get("help", ""),
    )


def _words(hint: Any) -> str:
    """Writes a type as people do: `int`, `float | None`, `tuple[int, ...]`."""
    if get_origin(hint) in (Union, types.UnionType):
        return " | ".join(_words(each) for each in get_args(hint))
    return "None" if hint is type(None) else _MODULES.sub("", inspect.formatannotation(hint))


def section_prefix(section: str) -> str:
    """Returns what comes before an option's name on the command line, with its dot.

    Args:
        section: Where a config asks for the kind; "" gives "", and so does a list of components,
            for its items have no path of their own.
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
    """Writes a value in JSON's types; what has no place there becomes text."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return repr(value)
