"""Lines and files by which editors complete config files without fetching anything.

A config names the schema beside it: `# yaml-language-server: $schema=FILE` in YAML, which VS Code
and PyCharm read, `#:schema FILE` in TOML, and the member `$schema` in JSON. Readers ignore them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import dicore_registry
from dicore.data.json_codec import dumps
from dicore.errors import UsageError
from dicore.run.atomic import read_json, write_file
from dicore_registry import Registry
from dicore_tools.commands.config_schema import TITLE, config_schema, packages
from dicore_tools.config_formats.yaml_form import yaml_source
from dicore_tools.output_place import check_place

__all__ = [
    "FILE", "SCHEMA_LINE", "check_new", "config_text", "with_schema", "write_config",
    "write_schema",
]  # fmt: skip

FILE: Final = "dicore.schema.json"
"""Name of the schema beside configs."""
SCHEMA_LINE: Final = f"# yaml-language-server: $schema={FILE}"
"""First line of a YAML config."""
_SUFFIXES: Final = (".yaml", ".yml", ".json")


def with_schema(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the tree of a JSON config with the member that names its schema."""
    return {"$schema": f"./{FILE}", **tree}


def config_text(
    tree: Mapping[str, Any], origin: Mapping[str, str], suffix: str, *, comments: bool = False
) -> str:
    """Returns a config as text whose first line names the schema beside it.

    Args:
        tree: Its values as nested dicts.
        origin: Origin of each value, by path.
        suffix: `.yaml`, `.yml` or `.json`.
        comments: Write the origin behind each value, in YAML.
    """
    if suffix == ".json":
        return dumps(with_schema(tree)) + "\n"
    return f"{SCHEMA_LINE}\n{yaml_source(tree, origin, comments=comments)}"


def write_config(
    file: Path, tree: Mapping[str, Any], origin: Mapping[str, str], *, comments: bool = False
) -> None:
    """Writes a config to a new file, and the schema beside it.

    Raises:
        UsageError: the file exists, has another suffix, or cannot be written.
    """
    check_new(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, config_text(tree, origin, file.suffix, comments=comments).encode())
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from error
    write_schema(file.parent)


def check_new(file: Path) -> None:
    """Refuses a file that exists or is in another form.

    Raises:
        UsageError: it does, or cannot be written.
    """
    if file.suffix not in _SUFFIXES:
        raise UsageError(f"{file} is not a .yaml or .json file")
    if file.exists():
        raise UsageError(f"{file} exists", hint="name a new file")
    check_place(file)


def write_schema(folder: Path) -> Path:
    """Writes the schema of configs into a folder, unless it is there; returns its file.

    One of other packages, or of other versions of them, is replaced.

    Raises:
        UsageError: the file is not a schema of dicore, or cannot be written.
    """
    file, registry = folder / FILE, dicore_registry.default()
    try:
        found = read_json(file)
        if not isinstance(found, dict) or found.get("title") != TITLE:
            raise UsageError(f"{file}: not a schema of dicore", hint="rename it")
        if found.get("$comment") == packages(registry):
            return file
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: cannot be read: {error}", hint="rename it") from error
    try:
        write_file(file, _text(registry).encode())
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from error
    return file


@lru_cache(maxsize=1)
def _text(registry: Registry) -> str:
    """Returns the schema of configs with the components of a registry, which are imported."""
    with redirect_stdout(sys.stderr):  # imports may print
        return json.dumps(config_schema(registry), separators=(",", ":")) + "\n"
