"""On which line of a config file each key stands: for messages and for `config show --origin`.

A file is looked through only when somebody asks, that is after a mistake. A value that code
computes has no line of its own; then the nearest section that has one is told.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from dicore.config.aliases import ALIASES, CREATE_PATHS

__all__ = ["line_of", "place_of"]

Found = Iterator[tuple[str, int]]

_INDEX = re.compile(r"\[\d+\]$")
_TABLE = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")


def place_of(file: Path, path: str) -> str:
    """Returns `file:line` of a key, or the file alone where no line is known."""
    line = line_of(file, path)
    return f"{file}:{line}" if line else str(file)


def line_of(file: Path, path: str) -> int | None:
    """Returns the line on which a key, or else the nearest section around it, is given.

    Args:
        file: A config file of any form.
        path: Of the compiled config; short forms and create_config's places are found too.
    """
    try:
        stamp = file.stat().st_mtime_ns
    except OSError:
        return None
    lines = _lines(file, stamp)
    while path:
        for name in (path, *_other_names(path)):
            if name in lines:
                return lines[name]
        shorter = _INDEX.sub("", path)
        path = shorter if shorter != path else path.rpartition(".")[0]
    return None


def _other_names(path: str) -> Iterator[str]:
    """Yields the paths under which a file may give the value of `path`."""
    for alias, full in (*ALIASES.items(), *CREATE_PATHS.items()):
        if path == full or path.startswith((f"{full}.", f"{full}[")):
            yield alias + path[len(full) :]
    if path.endswith(".type"):
        yield from (name for name in _other_names(path.removesuffix(".type")))


@lru_cache(maxsize=16)
def _lines(file: Path, stamp: int) -> Mapping[str, int]:
    try:
        text = file.read_text(encoding="utf-8")
        found = _READERS[file.suffix.lower()](text)
        return dict(reversed(list(found)))  # of a key given twice, the first
    except (OSError, KeyError, ValueError, SyntaxError, RecursionError):
        return {}


def _python(text: str) -> Found:
    for node in ast.parse(text).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        names = [each.id for each in targets if isinstance(each, ast.Name)]
        value = getattr(node, "value", None)
        if value is not None and any(name.endswith("_config") for name in names):
            yield from _python_tree(value, "")
        if isinstance(node, ast.FunctionDef) and node.name == "gen_params":
            yield from _python_body(node)


def _python_body(function: ast.FunctionDef) -> Found:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.Return) and node.value is not None:
            parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            for part in parts:
                yield from _python_tree(part, "")


def _python_tree(node: ast.expr, path: str) -> Found:
    """Finds keys in `{…}`, `dict(…)`, and whatever is called on one (`EasyDict(dict(…))`)."""
    pairs: list[tuple[str, ast.expr, int]] = []
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                pairs.append((key.value, value, key.lineno))
    elif isinstance(node, ast.Call):
        for each in node.args:
            yield from _python_tree(each, path)
        pairs += [(k.arg, k.value, k.value.lineno) for k in node.keywords if k.arg is not None]
    elif isinstance(node, ast.List | ast.Tuple):
        for index, item in enumerate(node.elts):
            yield f"{path}[{index}]", item.lineno
            yield from _python_tree(item, f"{path}[{index}]")
    for name, value, line in pairs:
        at = f"{path}.{name}" if path else name
        yield at, line
        yield from _python_tree(value, at)


def _yaml(text: str) -> Found:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    for path, line in _yaml_tree(root, ""):
        for half in ("main_config.", "create_config.", "config."):
            yield path.removeprefix(half), line


def _yaml_tree(node: Any, path: str) -> Found:
    kind = getattr(node, "id", "")
    if kind == "mapping":
        for key, value in node.value:
            at = f"{path}.{key.value}" if path else str(key.value)
            yield at, key.start_mark.line + 1
            yield from _yaml_tree(value, at)
    elif kind == "sequence":
        for index, item in enumerate(node.value):
            yield f"{path}[{index}]", item.start_mark.line + 1
            yield from _yaml_tree(item, f"{path}[{index}]")


def _toml(text: str) -> Found:
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if head := _TABLE.match(line):
            table = _toml_path(head[1])
            yield _without_half(table), number
        elif key := _KEY.match(line):
            at = _toml_path(key[1])
            yield _without_half(f"{table}.{at}" if table else at), number


def _toml_path(text: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in text.split("."))


def _without_half(path: str) -> str:
    return path.removeprefix("main_config.").removeprefix("create_config.")


_READERS = {".py": _python, ".yaml": _yaml, ".yml": _yaml, ".json": _yaml, ".toml": _toml}
