"""Reads a config file: Python with both dicts, YAML, TOML, or the JSON that a run writes."""

from __future__ import annotations

import runpy
import tomllib
import traceback
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from dicore.config.exact import loads
from dicore.errors import ConfigError

__all__ = ["read_config"]

Pair = tuple[dict[str, Any], dict[str, Any]]


def read_config(path: str | PathLike[str]) -> Pair:
    """Reads `main_config` and `create_config` from a file.

    Args:
        path: A `.py` file holding both dicts (or one pair `X_config`, `X_create_config`); or one
            tree in `.yaml`, `.yml`, `.toml` or `.json`, whose create_config may be missing. A
            Python file is run, so name only files that you trust.

    Returns:
        The two dicts.

    Raises:
        ConfigError: there is no such file, it cannot be read, or a dict is missing.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise ConfigError(f"{path}: no such config file", hint=f"looked in {Path.cwd()}")
    read = _READERS.get(file.suffix.lower())
    if read is None:
        known = ", ".join(_READERS)
        raise ConfigError(f"{path}: cannot read '{file.suffix}' files", hint=f"one of {known}")
    tree = read(file)
    if file.suffix.lower() == ".py":
        return _pair(tree, str(path))
    if tree is None:
        return {}, {}
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{path}: expected a section, got {type(tree).__name__}")
    if "main_config" in tree:
        return dict(tree["main_config"] or {}), dict(tree.get("create_config") or {})
    return dict(tree), {}


def _python(file: Path) -> dict[str, Any]:
    try:
        return runpy.run_path(str(file), run_name="dicore_config_file")
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((f.lineno for f in reversed(frames) if f.filename == str(file)), None)
        if isinstance(error, SyntaxError):
            line = error.lineno
        place = f"{file}:{line}" if line else str(file)
        raise ConfigError(f"{place}: {type(error).__name__}: {error}") from error


def _yaml(file: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(_text(file))
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: {error}") from error


def _toml(file: Path) -> Any:
    try:
        return tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: {error}") from error


def _json(file: Path) -> Any:
    try:
        tree = loads(_text(file))
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from error
    if isinstance(tree, Mapping) and {"config", "components"} <= tree.keys():
        return tree["config"]
    return tree


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from error


def _pair(names: Mapping[str, Any], path: str) -> Pair:
    """Finds the two dicts among the names that a Python file defines."""
    found = {}
    for wanted, suffix in (("main_config", "_config"), ("create_config", "_create_config")):
        if isinstance(names.get(wanted), Mapping):
            found[wanted] = dict(names[wanted])
            continue
        others = [
            name
            for name, value in names.items()
            if name.endswith(suffix)
            and isinstance(value, Mapping)
            and name not in found
            and name.endswith("_create_config") == (wanted == "create_config")
            and name not in ("main_config", "create_config", "system_config")
        ]
        if len(others) != 1:
            some = f" ({', '.join(others)}: which one?)" if others else ""
            raise ConfigError(
                f"{path}: '{wanted}' is missing{some}", hint=f"define {wanted} = {{…}}"
            )
        found[wanted] = dict(names[others[0]])
    return found["main_config"], found["create_config"]


_READERS: dict[str, Callable[[Path], Any]] = {
    ".py": _python,
    ".yaml": _yaml,
    ".yml": _yaml,
    ".toml": _toml,
    ".json": _json,
}
