"""What a run, a file, a preset or a pair of names stands for: values, origins and components."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dicore.config.compiled import Compiled
from dicore.config.overrides import parse_value
from dicore.config.plain import join
from dicore.config.read import is_config, read_file
from dicore.errors import UnknownComponentError, UsageError

if TYPE_CHECKING:
    from dicore.hookspecs.manager import Plugins
    from dicore.run.request import TrainRequest

__all__ = [
    "Settings",
    "compiled_of",
    "find_settings",
    "flat",
    "in_words",
    "origin_of",
]


@dataclass(frozen=True, slots=True)
class Settings:
    """A config as it may be shown.

    Args:
        tree: Its values as nested dicts, without secrets.
        origin: Where each came from, by path.
        components: Who supplies each part, by path.
        recorded: It was read off a run, which knew the spaces of its environment.
    """

    tree: Mapping[str, Any]
    origin: Mapping[str, str]
    components: Mapping[str, Mapping[str, Any]]
    recorded: bool = False


def find_settings(word: str | None, request: TrainRequest) -> Settings:
    """Returns the config that a word of the command line stands for.

    A run's own record is shown as it is, installed components or not; with anything to lay over it
    it is compiled like any other config.

    Args:
        word: A run, a config file or a preset; None for the names in `request`.
        request: What is said beside it.

    Raises:
        UsageError: there is nothing of that name.
        ConfigError: everything that is wrong.
    """
    said = any((request.overrides, request.env, request.policy, request.cpanel))
    alone = not said and request.seed is None
    record = _record(word) if word is not None and alone else None
    if record is not None:
        return record
    from dicore.config.secrets import saved_tree

    compiled = compiled_of(word, request)
    return Settings(saved_tree(compiled), compiled.origin, compiled.components)


def compiled_of(
    word: str | None, request: TrainRequest, plugins: Plugins | None = None
) -> Compiled:
    """Compiles what a word of the command line stands for; see `find_settings`.

    Args:
        word: A run, a config file or a preset; None for the names in `request`.
        request: What is said beside it.
        plugins: Who is told what the sources say before it is compiled.

    Raises:
        UsageError: there is nothing of that name.
        ConfigError: everything that is wrong.
    """
    from dicore.run.request import compile_request

    if word is not None and not is_config(word) and not Path(word).suffix:
        _must_be_preset(word)
    return compile_request(replace(request, config=word), plugins)


def _record(word: str) -> Settings | None:
    if not is_config(word):
        return None
    if not Path(word).is_dir() and Path(word).suffix.lower() != ".json":
        return None  # reading a Python file runs it
    record = read_file(word).record
    if record is None:
        return None
    parts = [record.get(name) for name in ("config", "origin", "components")]
    tree, origin, components = (part if isinstance(part, Mapping) else {} for part in parts)
    return Settings(tree, origin, components, recorded=True)


def _must_be_preset(name: str) -> None:
    import dicore_registry

    try:
        dicore_registry.default().find("preset", name)
    except UnknownComponentError as error:
        hint = error.message
        if Path(name).exists() or "/" in name or os.sep in name:
            hint = "a run is a folder with a config.json; a file ends in .py, .yaml, .toml or .json"
        raise UsageError(f"{name}: neither a file, a run nor a preset", hint=hint) from None


def flat(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields every value of a tree by its path; lists of plain values are one value."""
    if isinstance(tree, Mapping) and tree and all(isinstance(key, str) for key in tree):
        for key, value in tree.items():
            yield from flat(value, join(path, key))
    elif isinstance(tree, list | tuple) and any(isinstance(item, Mapping) for item in tree):
        for index, item in enumerate(tree):
            yield from flat(item, f"{path}[{index}]")
    else:
        yield path, tree


def origin_of(path: str, origin: Mapping[str, str]) -> str:
    """Returns where a value comes from, that of the option around it for a part of one."""
    while path and path not in origin:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return origin.get(path, "")


def in_words(value: Any) -> str:
    """Writes a value as the command line would take it."""
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
        return f"[{', '.join(map(in_words, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {in_words(item)}" for key, item in value.items()) + "}"
    return str(value)
