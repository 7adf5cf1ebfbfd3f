"""Reads YAML and TOML config files."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dicore.config.reader import ConfigFile, TextError, node_lines, read_text

__all__ = ["TOML", "YAML", "TextFormat"]


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A format whose files hold one tree.

    Args:
        parse: Returns the tree of a text and the line of each key.
    """

    parse: Callable[[str], tuple[Any, dict[str, int]]]

    def read(self, file: Path, label: str, cpanel: Mapping[str, Any] | None) -> ConfigFile:
        """Reads a file; see `dicore.config.reader`."""
        return read_text(file, self.parse, cpanel)


def _yaml(text: str) -> tuple[Any, dict[str, int]]:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        root = loader.get_single_node()
        lines = node_lines(root)
        return (None if root is None else loader.construct_document(root)), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = error.problem or str(error)
        if message.startswith("but ") and error.context:
            message = f"{error.context}, {message}"
        if isinstance(error, yaml.constructor.ConstructorError):
            message += "; a config holds plain data"
        raise TextError(f"{mark.line + 1}: {message}" if mark else message) from error
    except yaml.YAMLError as error:
        raise TextError(" ".join(str(error).split())) from error
    finally:
        loader.dispose()


def _toml(text: str) -> tuple[Any, dict[str, int]]:
    return tomllib.loads(text), {}


YAML = TextFormat(_yaml)
TOML = TextFormat(_toml)
