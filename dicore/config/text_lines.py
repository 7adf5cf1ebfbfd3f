"""The lines of keys in YAML, TOML and JSON, by passes that know positions.

The texts have been parsed already, so the passes over TOML and JSON need not check them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dicore.config.plain import join

__all__ = ["PositionError", "json_lines", "toml_lines", "yaml_lines"]

_MOST_NODES = 100_000
"""What a YAML file may become once its aliases are written out."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|\n|[^\s{}\[\]:,"]+')
_TOML_KEY = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*(\.?)""")
_TOML_GAP = re.compile(r"(?:\s|#[^\n]*|,)*")
_TOML_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL
)
_TOML_BARE = re.compile(r"[^,\]}\n#]*")


class PositionError(ValueError):
    """A text holds what its parser would pass over; the message may begin with a line."""


def yaml_lines(root: Any) -> dict[str, int]:
    """Returns the line of each key of a composed YAML document.

    Raises:
        PositionError: a key is given twice in one section, an alias stands inside of what it names,
            or aliases multiply beyond measure.
    """
    walk = _YamlWalk()
    if root is not None:
        walk.visit(root, "")
    return walk.lines


@dataclass(slots=True)
class _YamlWalk:
    lines: dict[str, int] = field(default_factory=dict)
    active: set[int] = field(default_factory=set)
    count: int = 0

    def visit(self, node: Any, path: str) -> None:
        self.count += 1
        if self.count > _MOST_NODES:
            raise PositionError(f"more than {_MOST_NODES} values once aliases are written out")
        if id(node) in self.active:
            raise PositionError(f"{_line(node)}: an alias stands inside of what it names")
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
        merged = [value for key, value in node.value if _merges(key)]
        for value in merged:
            for part in reversed(value.value) if value.id == "sequence" else [value]:
                self.visit(part, path)
        for key, value in node.value:
            if _merges(key) or key.id != "scalar":
                continue
            at = join(path, key.value)
            if at in seen:
                raise PositionError(f"{_line(key)}: {at} is given twice, first in line {seen[at]}")
            self.lines[at] = seen[at] = _line(key)
            self.visit(value, at)


def _merges(key: Any) -> bool:
    return bool(key.tag == "tag:yaml.org,2002:merge")


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def json_lines(text: str) -> dict[str, int]:
    """Returns the line of each key of a JSON text.

    Raises:
        PositionError: a key is given twice in one object.
    """
    tokens = _json_tokens(text)
    lines: dict[str, int] = {}
    _json_value(tokens, *next(tokens), "", lines)
    return lines


def _json_tokens(text: str) -> Iterator[tuple[str, int]]:
    line = 1
    for match in _TOKEN.finditer(text):
        if match[0] == "\n":
            line += 1
        else:
            yield match[0], line


def _json_value(
    tokens: Iterator[tuple[str, int]], first: str, line: int, path: str, lines: dict[str, int]
) -> None:
    if path:
        lines.setdefault(path, line)
    if first == "{":
        for key, at in tokens:
            if key == "}":
                return
            if key != ",":
                _json_pair(tokens, join(path, _unquoted(key)), at, lines)
    elif first == "[":
        index = 0
        for item, at in tokens:
            if item == "]":
                return
            if item == ",":
                index += 1
            else:
                _json_value(tokens, item, at, f"{path}[{index}]", lines)


def _json_pair(
    tokens: Iterator[tuple[str, int]], path: str, line: int, lines: dict[str, int]
) -> None:
    if path in lines:
        raise PositionError(f"{line}: {path} is given twice, first in line {lines[path]}")
    lines[path] = line
    next(tokens)  # the colon
    _json_value(tokens, *next(tokens), path, lines)


def _unquoted(token: str) -> str:
    if "\\" not in token:
        return token[1:-1]
    import json

    return str(json.loads(token))


def toml_lines(text: str) -> dict[str, int]:
    """Returns the line of each key of a TOML text."""
    return _Toml(text).read()


class _Toml:
    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self.at = 0
        self.counted, self.line = 0, 1
        self.lines: dict[str, int] = {}
        self.arrays: dict[str, int] = {}

    def read(self) -> dict[str, int]:
        table = ""
        self._gap()
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._gap()
        return self.lines

    def _gap(self) -> None:
        match = _TOML_GAP.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def _now(self) -> int:
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        return self.line

    def _header(self) -> str:
        many = self.text.startswith("[[", self.at)
        line = self._now()
        self.at += 2 if many else 1
        path = self._key("", line, header=True)
        self.at += 2 if many else 1
        if many:
            number = self.arrays[path] = self.arrays.get(path, -1) + 1
            path = f"{path}[{number}]"
            self.lines[path] = line
        return path

    def _key(self, path: str, line: int, *, header: bool = False) -> str:
        """Reads a dotted key; every section that it opens has its line."""
        more = True
        while more:
            match = _TOML_KEY.match(self.text, self.at)
            assert match is not None
            quoted, literal, bare, dot = match.groups()
            if quoted is not None and "\\" in quoted:
                import tomllib

                quoted = next(iter(tomllib.loads(f'"{quoted}" = 0')))
            path = join(path, quoted if quoted is not None else literal or bare or "")
            self.lines.setdefault(path, line)
            more, self.at = dot == ".", match.end()
            if header and more and path in self.arrays:
                path = f"{path}[{self.arrays[path]}]"
        return path

    def _pair(self, table: str) -> None:
        path = self._key(table, self._now())
        self.at += 1  # the sign of equality
        self._value(path)

    def _value(self, path: str) -> None:
        while self.text[self.at] in " \t":
            self.at += 1
        first = self.text[self.at]
        if first in "\"'":
            match = _TOML_STRING.match(self.text, self.at)
        elif first == "[":
            return self._list(path)
        elif first == "{":
            self.at += 1
            self._gap()
            while self.text[self.at] != "}":
                self._pair(path)
                self._gap()
            self.at += 1
            return None
        else:
            match = _TOML_BARE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return None

    def _list(self, path: str) -> None:
        self.at += 1
        self._gap()
        index = 0
        while self.text[self.at] != "]":
            self.lines[f"{path}[{index}]"] = self._now()
            self._value(f"{path}[{index}]")
            self._gap()
            index += 1
        self.at += 1
