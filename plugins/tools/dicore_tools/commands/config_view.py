"""Finds the config of a run, file, preset or pair of names: values, origins and components."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dicore.config.convert import parse_value
from dicore.config.paths import join
from dicore.config.reader import is_config, read_file
from dicore.config.sections import Compiled
from dicore.config.writer import recorded_components
from dicore.errors import UnknownComponentError, UsageError

if TYPE_CHECKING:
    from dicore.hookspecs.manager import Plugins
    from dicore.run.request import TrainRequest

__all__ = ["ConfigView", "compile_source", "flat", "format_value", "origin_of", "view_config"]


@dataclass(frozen=True, slots=True)
class ConfigView:
    """A config that can be shown: secrets are redacted.

    Args:
        tree: Values as nested dicts.
        origin: Origin of each value, by path.
        components: Component and package of each part, by path.
        recorded: The config was read from a run, so it includes the spaces of its environment.
    """

    tree: Mapping[str, Any]
    origin: Mapping[str, str]
    components: Mapping[str, Mapping[str, Any]]
    recorded: bool = False


def view_config(source: str | None, request: TrainRequest) -> ConfigView:
    """Returns the config of a source.

    The config of a run is shown as recorded, even if its components are not installed; with
    overrides it is compiled like any other config.

    Args:
        source: A run, a config file or a preset; None for the names in `request`.
        request: Overrides and names.

    Raises:
        UsageError: there is no such source.
        ConfigError: the config is invalid; the error lists all problems.
    """
    overridden = any((request.overrides, request.env, request.policy, request.cpanel))
    unchanged = not overridden and request.seed is None
    record = _record(source) if source is not None and unchanged else None
    if record is not None:
        return record
    from dicore.config.writer import saved_tree

    compiled = compile_source(source, request)
    return ConfigView(saved_tree(compiled), compiled.origin, compiled.components)


def compile_source(
    source: str | None, request: TrainRequest, plugins: Plugins | None = None
) -> Compiled:
    """Compiles the config of a source; see `view_config`.

    Args:
        source: A run, a config file or a preset; None for the names in `request`.
        request: Overrides and names.
        plugins: Plugins whose hooks see the config sources before they are compiled.

    Raises:
        UsageError: there is no such source.
        ConfigError: the config is invalid; the error lists all problems.
    """
    from dicore.run.request import compile_request

    if source is not None and not is_config(source) and not Path(source).suffix:
        _require_preset(source)
    return compile_request(replace(request, config=source), plugins)


def _record(source: str) -> ConfigView | None:
    if not is_config(source):
        return None
    if not Path(source).is_dir() and Path(source).suffix.lower() != ".json":
        return None  # reading a Python file runs it
    record = read_file(source).record
    if record is None:
        return None
    parts = [record.get(name) for name in ("config", "origin")]
    tree, origin = (part if isinstance(part, Mapping) else {} for part in parts)
    components = recorded_components(record)
    return ConfigView(tree, origin, components, recorded=True)


def _require_preset(name: str) -> None:
    import dicore_registry

    try:
        dicore_registry.default().find("preset", name)
    except UnknownComponentError as error:
        hint = error.message
        if Path(name).exists() or "/" in name or os.sep in name:
            hint = "a run folder contains config.json; a file ends in .py, .yaml, .toml or .json"
        raise UsageError(f"{name}: not a file, run or preset", hint=hint) from None


def flat(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields path and value of each option; a list of plain values is one value."""
    if isinstance(tree, Mapping) and tree and all(isinstance(key, str) for key in tree):
        for key, value in tree.items():
            yield from flat(value, join(path, key))
    elif isinstance(tree, list | tuple) and any(isinstance(item, Mapping) for item in tree):
        for index, item in enumerate(tree):
            yield from flat(item, f"{path}[{index}]")
    else:
        yield path, tree


def origin_of(path: str, origin: Mapping[str, str]) -> str:
    """Returns the origin of a value, or of the option that contains it."""
    while path and path not in origin:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return origin.get(path, "")


def format_value(value: Any) -> str:
    """Formats a value as it can be written on the command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        try:
            same = parse_value(value) == value and value.isprintable() and value == value.strip()
        except ValueError:
            same = False
        return value if same else json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {format_value(item)}" for key, item in value.items()) + "}"
    return str(value)
