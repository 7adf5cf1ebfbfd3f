"""`dicore config schema`: a JSON Schema of whole configs, with every installed component's options.

Editors check and complete config files by it (`# yaml-language-server: $schema=dicore.json`, or
taplo's `#:schema ./dicore.json`). It is looser than compile: sums of options, ranges that depend on
others and numbers written as text are compile's to judge.
"""

from __future__ import annotations

import collections.abc
import contextlib
import json
import math
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

import dicore_registry
from dicore.config.declare import REQUIRED, ComponentConfig, Section
from dicore.config.fields import Field, fields_of
from dicore.config.sections import RunConfig
from dicore.config.signature import config_class
from dicore.errors import ConfigError, RegistryError, UsageError
from dicore_registry import Registry, Removed, Renamed

__all__ = ["schema", "write"]

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_BOUNDS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
}
_PLAIN: Final[dict[Any, dict[str, Any]]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    str: {"type": "string"},
    float: {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]},
    types.NoneType: {"type": "null"},
}


def write(out: str | None) -> None:
    """Writes the schema of everything installed to a file; None: to standard output.

    Raises:
        UsageError: the file cannot be written.
    """
    with contextlib.redirect_stdout(sys.stderr):  # what an import prints is no part of it
        text = json.dumps(schema(dicore_registry.default()), indent=1) + "\n"
    if out is None:
        sys.stdout.write(text)
        return
    try:
        Path(out).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out: {out} cannot be written: {error.strerror}") from error
    sys.stdout.write(f"{out}\n")


def schema(registry: Registry) -> dict[str, Any]:
    """Returns the schema of a whole config.

    Args:
        registry: Its components are imported; those that cannot be are known by name alone.
    """
    writer = _Writer(registry)
    root = writer.section(RunConfig)
    return {
        "$schema": _DIALECT,
        "title": "dicore config",
        **root,
        "$defs": dict(sorted(writer.definitions.items())),
    }


class _Writer:
    """Writes sections; each kind and each component once, under `$defs`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.definitions: dict[str, Any] = {}

    def section(self, cls: type[Section]) -> dict[str, Any]:
        fields = fields_of(cls).items()
        own = {
            name: self._option(field)
            for name, field in fields
            if not (name == "type" and issubclass(cls, ComponentConfig))
        }
        return {"type": "object", "properties": own, "additionalProperties": False}

    def _option(self, field: Field) -> dict[str, Any]:
        facts = field.metadata
        if "section" in facts:
            said = self.section(facts["section"])
        elif "component" in facts:
            said = {"anyOf": [self._slot(facts["component"])]}
            said["anyOf"] += [{"type": "null"}] if facts.get("optional") else []
        elif "components" in facts:
            said = {"type": "array", "items": self._slot(facts["components"])}
        else:
            said = _leaf(field)
        if text := facts.get("help"):
            unit = facts.get("unit")
            said = {**said, "description": f"{text} [{unit}]" if unit else text}
        return said

    def _slot(self, kind: str) -> dict[str, Any]:
        """Returns a reference to what fills a slot: a name, or a node with `type` and options."""
        key = f"kind.{kind}"
        if key not in self.definitions:
            self.definitions[key] = {}  # a component of the kind may have a slot for one
            self.definitions[key] = self._kind(kind)
        return {"$ref": f"#/$defs/{key}"}

    def _kind(self, kind: str) -> dict[str, Any]:
        names: list[str] = []
        choices: list[dict[str, Any]] = []
        for entry in self._registry.entries(kind):
            if entry.status in ("broken", "disabled", "incompatible"):
                continue
            written = [entry.qualified]
            if entry.status not in ("conflict", "shadowed"):
                written.insert(0, entry.name)
            names += written
            if self._define(f"{kind}.{entry.dist}.{entry.name}", entry):
                choices.append({
                    "if": {"properties": {"type": {"enum": written}}, "required": ["type"]},
                    "then": {"$ref": f"#/$defs/{kind}.{entry.dist}.{entry.name}"},
                })  # fmt: skip
        name = {"anyOf": [{"enum": names}, {"type": "string", "pattern": self._other_names(kind)}]}
        node = {"type": "object", "properties": {"type": name}, "allOf": choices}
        return {"anyOf": [name, node]}

    def _other_names(self, kind: str) -> str:
        """Returns what a type looks like that is no name: an import path, or ids of a provider."""
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
            said = self.section(config_class(target, entry.kind))
        except (RegistryError, ConfigError, TypeError):
            return False
        said["properties"] |= {"type": {"type": "string"}, "import_names": {}, "cfg_type": {}}
        if summary := self._registry.summary(entry):
            said["description"] = summary
        self.definitions[key] = said
        return True


def _leaf(field: Field) -> dict[str, Any]:
    facts = field.metadata
    said = _typed(field.hint)
    bounds = {
        _BOUNDS[sign]: bound
        for sign, bound in facts.get("bounds", {}).items()
        if math.isfinite(bound)
    }
    if facts.get("choices"):
        said = {"enum": list(facts["choices"])}
    elif bounds:
        said = _bounded(said, bounds)
    default = field.default()
    if default is not REQUIRED and _is_json(default):
        said = {**said, "default": list(default) if isinstance(default, tuple) else default}
    return said


def _bounded(said: dict[str, Any], bounds: Mapping[str, Any]) -> dict[str, Any]:
    """Puts bounds where the numbers are."""
    if said.get("type") in ("integer", "number"):
        return {**said, **bounds}
    if "anyOf" in said:
        return {**said, "anyOf": [_bounded(each, bounds) for each in said["anyOf"]]}
    if "items" in said:
        return {**said, "items": _bounded(said["items"], bounds)}
    return said


def _typed(hint: Any) -> dict[str, Any]:
    """Writes a type; what JSON Schema has no word for allows everything."""
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_typed(each) for each in inner]}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (list, tuple, set, collections.abc.Sequence):
        items = [each for each in inner if each is not Ellipsis]
        same = origin is not tuple or Ellipsis in inner
        return {"type": "array", "items": _typed(items[0])} if items and same else {"type": "array"}
    if origin in (dict, collections.abc.Mapping) or hint is dict:
        values = _typed(inner[1]) if inner else {}
        return {"type": "object", "additionalProperties": values or True}
    return {}


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
