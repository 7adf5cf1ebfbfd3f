"""Reads YAML and TOML config files."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dicore.config.paths import join
from dicore.config.reader import ConfigFile, TextError, read_text, reading, text_of
from dicore_registry.explain import brief

__all__ = ["TOML", "YAML", "TextFormat", "node_lines", "read_yaml"]

_MAX_NODES = 100_000
"""Values that a YAML file may have once its aliases are expanded."""
_SHORT = 2000
"""Length and depth of a text that libyaml reads safely."""


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

    def lines(self, text: str) -> dict[str, int]:
        """Returns the line of each path of a JSON text, which is YAML but for tabs and escapes."""
        import yaml

        try:
            root = yaml.compose(text.replace("\t", " "), Loader=_loader())
        except yaml.YAMLError:
            return {}
        return node_lines(root, len(text))


def _loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _yaml(text: str) -> tuple[object, dict[str, int]]:
    import yaml

    loader: Any = _loader()(text)
    try:
        _check_depth(text)
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
    except (AttributeError, LookupError, TypeError) as error:  # PyYAML's, of `!!bool x`
        raise TextError(f"a value is not of the type of its tag: {brief(error)}") from error
    finally:
        loader.dispose()


def read_yaml(file: Path) -> object:
    """Returns the content of a YAML file that is no config, in plain data.

    Raises:
        ConfigError: it cannot be read.
    """
    with reading(file):
        return _yaml(text_of(file))[0]


def node_lines(root: object, max_nodes: int = _MAX_NODES) -> dict[str, int]:
    """Returns the line of each key of a composed YAML document."""
    walk = _NodeLines(max_nodes)
    if root is not None:
        walk.visit(root, "")
    return walk.lines


def _check_depth(text: str) -> None:
    """Raises RecursionError where libyaml, which recurses in C, would end the process."""
    import yaml

    if len(text) <= _SHORT:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_loader()):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _SHORT:
            raise RecursionError


@dataclass(slots=True)
class _NodeLines:
    max_nodes: int
    lines: dict[str, int] = field(default_factory=dict)
    active: set[int] = field(default_factory=set)
    count: int = 0

    def visit(self, node: Any, path: str) -> None:
        self.count += 1
        if self.count > self.max_nodes:
            raise TextError(f"more than {self.max_nodes} values once aliases are expanded")
        if id(node) in self.active:
            raise TextError(f"{_line(node)}: an alias contains itself")
        self.active.add(id(node))
        if node.id == "mapping":
            self._mapping(node, path)
        elif node.id == "sequence":
            for index, item in enumerate(node.value):
                self.lines[f"{path}[{index}]"] = _line(item)
                self.visit(item, f"{path}[{index}]")
        self.active.discard(id(node))

    def _mapping(self, node: Any, path: str) -> None:
        seen: dict[str, int] = {}
        for key, value in node.value:
            if _merges(key):
                for part in reversed(value.value) if value.id == "sequence" else [value]:
                    self.visit(part, path)
        for key, value in node.value:
            if _merges(key) or key.id != "scalar":
                continue
            at = join(path, key.value)
            if at in seen:
                raise TextError(f"{_line(key)}: {at} is given twice, first in line {seen[at]}")
            self.lines[at] = seen[at] = _line(key)
            self.visit(value, at)


def _merges(key: Any) -> bool:
    return bool(key.tag == "tag:yaml.org,2002:merge")


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _toml(text: str) -> tuple[object, dict[str, int]]:
    return tomllib.loads(text), {}


YAML = TextFormat(_yaml)
TOML = TextFormat(_toml)
