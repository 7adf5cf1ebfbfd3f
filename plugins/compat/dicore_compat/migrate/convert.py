"""Converts a foreign config file and compiles the result: what dicore does not know is left out."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dicore.config import compile_config
from dicore.data.json_codec import dumps
from dicore.errors import ConfigError, DicoreError, UsageError
from dicore_compat.migrate.changes import Change, Tree
from dicore_compat.migrate.di_engine import convert
from dicore_compat.migrate.process import config_dicts, entry, pair
from dicore_compat.migrate.zoo import convert_entry
from dicore_tools.config_formats.editor_schema import SCHEMA_LINE, with_schema
from dicore_tools.config_formats.python_form import python_source
from dicore_tools.config_formats.yaml_form import yaml_source

__all__ = ["Migrated", "migrate", "migrated_text"]

_FORMATS = "name a file that ends in .yaml, .yml, .json or .py"
_UNKNOWN = "has no option"
_ROUNDS = 4
"""An option can become unknown when another one is left out."""


class Migrated(NamedTuple):
    """A converted config.

    Args:
        source: The foreign file, with the name of its entry.
        tree: The config, or as much of it as there is.
        changes: What differs.
        problems: Why it cannot be trained: parts that dicore lacks, values it refuses; empty if it
            compiles.
    """

    source: str
    tree: dict[str, Any]
    changes: list[Change]
    problems: tuple[str, ...]

    @property
    def losses(self) -> int:
        """Number of options whose effect dicore lacks."""
        return sum(each.verdict == "lost" for each in self.changes)


def migrate(file: str | Path, env_id: str | None = None, algorithm: str | None = None) -> Migrated:
    """Converts a config of DI-engine (Python) or an entry of rl-zoo3 (YAML).

    The code of a Python file is run, in a process of its own: see `config_dicts`.

    Args:
        file: The file.
        env_id: Entry of a YAML file.
        algorithm: Algorithm of a YAML file; None: its name.

    Raises:
        ConfigError: the file cannot be read.
        UsageError: it has no such entry, dicore has no such algorithm, or a Python file is given
            with the name of an entry.
    """
    path = Path(file)
    if not path.is_file():
        raise ConfigError(f"{file}: no such file")
    if path.suffix in (".yml", ".yaml"):
        if env_id is None:
            raise ConfigError(
                f"{file}: which entry?", hint=f"dicore migrate {file} --env CartPole-v1"
            )
        tree, changes = convert_entry(path, env_id, algorithm)
        return _fitted(f"{path} ({env_id})", tree, changes)
    if path.suffix != ".py":
        raise ConfigError(f"{file}: .py (DI-engine) or .yml (rl-zoo3) expected")
    if env_id is not None or algorithm is not None:
        raise UsageError(f"{file}: --env and --policy name an entry of a YAML file; leave them out")
    tree, changes = convert(*pair(path, config_dicts(path)), entry(path))
    return _fitted(str(path), tree, changes)


def migrated_text(made: Migrated, suffix: str = ".yaml") -> str:
    """Returns a config whose first lines say what differs from its source.

    Args:
        made: The converted config.
        suffix: `.yaml`, `.yml`, `.py`, or `.json`, which has no such lines.

    Raises:
        UsageError: another suffix.
    """
    if suffix == ".json":
        return dumps(with_schema(made.tree)) + "\n"
    if suffix == ".py":
        doc = "\n".join([f"Made by `dicore migrate {made.source}`.", "", *map(str, made.changes)])
        halves = {"main_config": made.tree, "create_config": {}}
        return python_source(halves, doc.replace("\\", "/"), formatted=True)
    if suffix not in (".yaml", ".yml"):
        raise UsageError(
            f"--out: cannot write a file {suffix or 'without a suffix'}", hint=_FORMATS
        )
    lines = [f"Made by `dicore migrate {made.source}`."]
    lines += [str(each) for each in made.changes]
    comment = "\n".join(
        textwrap.fill(line, 100, initial_indent="# ", subsequent_indent="#     ") for line in lines
    )
    return f"{SCHEMA_LINE}\n{comment}\n{yaml_source(made.tree, {})}"


def _fitted(source: str, values: Mapping[str, object], changes: Sequence[Change]) -> Migrated:
    """Leaves out the options that dicore does not know, and compiles what remains."""
    tree = Tree(values)
    noted = list(changes)
    problems: tuple[str, ...] = ()
    for _ in range(_ROUNDS):
        problems = _problems(tree.values)
        unknown = [each.partition(":")[0] for each in problems if _UNKNOWN in each]
        for path in unknown:
            value = tree.pop(path)
            shown = "" if isinstance(value, Mapping) else f" (was {value})"
            noted.append(Change(path, "lost", f"dicore has no such option{shown}"))
        if not unknown:
            break
    return Migrated(source, tree.values, noted, problems)


def _problems(tree: Mapping[str, Any]) -> tuple[str, ...]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile_config(tree, names_only=True)
        except ConfigError as error:
            return error.problems
        except DicoreError as error:
            return (str(error),)
    return ()
