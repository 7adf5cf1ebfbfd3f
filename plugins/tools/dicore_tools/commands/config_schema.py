"""JSON Schema of configs, with the options of all installed components.

It is less strict than compiling a config: constraints between options are not part of it, nor is
what `${env:NAME}` stands for, and JSON Schema cannot tell `64.0` from 64. What compiles passes it:
other names of a path, one component for a list, None for what another name gives, `"1e-3"`.
"""

from __future__ import annotations

import collections.abc
import json
import math
import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin

from dicore.config.layers import ALIASES
from dicore.config.paths import join
from dicore.config.schema import REQUIRED, ComponentConfig, Field, Section, fields_of
from dicore.config.sections import RunConfig
from dicore.config.signature import config_class
from dicore.errors import ConfigError, RegistryError
from dicore_registry import Registry, Removed, Renamed

if TYPE_CHECKING:
    from dicore.data import Tree

__all__ = ["TITLE", "config_schema", "packages"]

TITLE: Final = "dicore config"

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_BOUNDS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
}
_VARIABLE: Final = r"\$\{env:"
_COUNT: Final = r"^[-+]?[0-9]{1,15}[eE][+]?[0-9]{1,2}$"
_NUMBER: Final = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$|^[-+]?\.?[iI][nN][fF]$"
_PLAIN: Final[dict[object, dict[str, object]]] = {
    bool: {"type": ["boolean", "string"], "pattern": _VARIABLE},
    int: {"type": ["integer", "string"], "pattern": f"{_COUNT}|{_VARIABLE}"},
    str: {"type": "string"},
    float: {
        "anyOf": [
            {"type": ["number", "string"], "pattern": f"{_NUMBER}|{_VARIABLE}"},
            {"type": "object", "required": ["__float__"]},
        ]
    },
    types.NoneType: {"type": "null"},
}
_NULL: Final = {"type": "null"}


def config_schema(registry: Registry) -> dict[str, object]:
    """Returns the schema of a complete config.

    Args:
        registry: Its components are imported; if that fails, the schema has only their names.
    """
    writer = _Writer(registry)
    root = writer.section(RunConfig)
    root["properties"]["$schema"] = {"type": "string", "description": "this schema, for editors"}
    return {
        "$schema": _DIALECT,
        "$comment": packages(registry),
        "title": TITLE,
        **root,
        "$defs": dict(sorted(writer.definitions.items())),
    }


def packages(registry: Registry) -> str:
    """Returns the packages whose components a schema knows, with versions."""
    found = {f"{each.dist} {each.version}".rstrip() for each in registry.entries()}
    return ", ".join(sorted(found))


class _Writer:
    """Builds schemas of sections; each kind and component is defined once, under `$defs`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.definitions: dict[str, object] = {}

    def section(self, cls: type[Section], path: str = "") -> dict[str, Any]:
        """Returns the schema of a section at a path of the config, with its short forms."""
        fields = fields_of(cls).items()
        own = {
            name: self._option(field, join(path, name))
            for name, field in fields
            if not (name == "type" and issubclass(cls, ComponentConfig))
        }
        for alias, target in ALIASES.items():
            above, _, name = alias.rpartition(".")
            if above == path and name not in own:
                own[name] = {"description": f"another name of {target}"}
        return {"type": "object", "properties": own, "additionalProperties": False}

    def _option(self, field: Field, path: str) -> dict[str, object]:
        facts = field.metadata
        if "section" in facts:
            schema = {**self.section(facts["section"], path), "type": ["object", "null"]}
        elif "component" in facts:
            schema = {"anyOf": [self._slot(facts["component"]), _NULL]}
        elif "components" in facts:
            slot = self._slot(facts["components"])
            schema = {"anyOf": [_array(slot), slot, _NULL]}
        else:
            schema = _leaf(field)
            if path in ALIASES.values():  # None leaves it to another name
                kept = {name: schema.pop(name) for name in ("default",) if name in schema}
                schema = {"anyOf": [schema, _NULL], **kept}
        if text := facts.get("help"):
            unit = facts.get("unit")
            schema = {**schema, "description": f"{text} [{unit}]" if unit else text}
        return schema

    def _slot(self, kind: str) -> dict[str, object]:
        """Returns a reference to the schema of a slot: a name, or `type` and options."""
        key = f"kind.{kind}"
        if key not in self.definitions:
            self.definitions[key] = {}  # a component may have a slot of its own kind
            self.definitions[key] = self._kind(kind)
        return {"$ref": f"#/$defs/{key}"}

    def _kind(self, kind: str) -> dict[str, object]:
        names: list[str] = []
        choices: list[dict[str, object]] = []
        for entry in self._registry.entries(kind):
            if entry.status in ("broken", "disabled", "incompatible"):
                continue
            spellings = [entry.qualified]
            if entry.status not in ("conflict", "shadowed"):
                spellings.insert(0, entry.name)
            names += spellings
            if self._define(f"{kind}.{entry.dist}.{entry.name}", entry):
                choices.append({
                    "if": {"properties": {"type": {"enum": spellings}}, "required": ["type"]},
                    "then": {"$ref": f"#/$defs/{kind}.{entry.dist}.{entry.name}"},
                })  # fmt: skip
        known = [{"enum": names}] if names else []
        name = {"anyOf": [*known, {"type": "string", "pattern": self._other_names(kind)}]}
        node: dict[str, Any] = {"type": "object", "properties": {"type": name}}
        if choices:
            node["allOf"] = choices
        return {"anyOf": [name, node]}

    def _other_names(self, kind: str) -> str:
        """Returns the pattern of other types: import paths, or the ids of a provider."""
        try:
            provider = self._registry.default(kind)
            target = self._registry.resolve(kind, provider).target if provider else None
        except RegistryError:
            target = None
        return "" if hasattr(target, "knows") else "[:/]"

    def _define(self, key: str, entry: Any) -> bool:
        try:
            target = self._registry.load(entry)
            if isinstance(target, Renamed | Removed):
                return False
            place = self._registry.kinds()[entry.kind].section or f"{entry.kind}."
            schema = self.section(config_class(target, entry.kind), place)
        except (RegistryError, ConfigError, TypeError):
            return False
        schema["properties"] |= {"type": {"type": "string"}, "import_names": {}, "cfg_type": {}}
        if summary := self._registry.summary(entry):
            schema["description"] = summary
        self.definitions[key] = schema
        return True


def _leaf(field: Field) -> dict[str, Tree]:
    facts = field.metadata
    schema = _typed(field.hint)
    bounds = {
        _BOUNDS[sign]: bound
        for sign, bound in facts.get("bounds", {}).items()
        if math.isfinite(bound)
    }
    if facts.get("choices"):
        known = [*facts["choices"], *([None] if types.NoneType in get_args(field.hint) else [])]
        schema = _enum(known)
    elif bounds:
        schema = _bounded(schema, bounds)
    default = field.default()
    if default is not REQUIRED and _is_json(default):
        schema = {**schema, "default": list(default) if isinstance(default, tuple) else default}
    return schema


def _enum(values: list[Any]) -> dict[str, object]:
    """Returns the schema of a choice; `none` may be written as None."""
    known = [*values, None] if "none" in values and None not in values else values
    return {"anyOf": [{"enum": known}, {"type": "string", "pattern": _VARIABLE}]}


def _list(items: object) -> dict[str, object]:
    """Returns the schema of a list of plain values, which may be written as `64,64`."""
    text = {"type": "string", "pattern": f",|{_VARIABLE}"}
    return {"anyOf": [_array(items), text]}


def _array(items: object) -> dict[str, object]:
    """Returns the schema of a list, or of a tuple as `config.json` has it."""
    plain = {"type": "array", "items": items}
    tagged = {"type": "object", "properties": {"__tuple__": plain}, "required": ["__tuple__"]}
    return {"anyOf": [plain, {**tagged, "additionalProperties": False}]}


def _bounded(schema: dict[str, Any], bounds: Mapping[str, Any]) -> dict[str, object]:
    """Adds bounds to the number types of a schema."""
    if {"integer", "number"}.intersection(schema.get("type") or ()):
        return {**schema, **bounds}
    if "anyOf" in schema:
        return {**schema, "anyOf": [_bounded(each, bounds) for each in schema["anyOf"]]}
    if "items" in schema:
        return {**schema, "items": _bounded(schema["items"], bounds)}
    return schema


def _typed(hint: object) -> dict[str, object]:
    """Returns the schema of a type; types unknown to JSON Schema allow any value."""
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_typed(each) for each in inner]}
    if origin is Literal:
        return _enum(list(inner))
    if origin in (list, tuple, set, collections.abc.Sequence):
        items = [each for each in inner if each is not Ellipsis]
        same = origin is not tuple or Ellipsis in inner
        return _list(_typed(items[0]) if items and same else {})
    if origin in (dict, collections.abc.Mapping) or hint is dict:
        values = _typed(inner[1]) if inner else {}
        text = {"type": ["object", "string"], "pattern": _VARIABLE}
        return {**text, "additionalProperties": values or True}
    return {}


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
