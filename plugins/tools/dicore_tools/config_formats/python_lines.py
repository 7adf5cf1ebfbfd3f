"""The lines of the keys that a Python config writes as literals.

`dict` literals and calls are read, the names and subscripts assigned to at the top of the module
(or of `gen_params`), and `|`. A literal counts only while it agrees with the value that running the
file gave, so that a line that code overrides later is not reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dicore.config.paths import join

__all__ = ["python_lines"]

_DICTS = frozenset({"dict", "EasyDict", "OrderedDict", "deepcopy", "copy"})
_MAX_DEPTH = 40
_ABSENT = object()


def python_lines(
    text: str, main: tuple[str, Any], create: tuple[str, Any], made: bool
) -> dict[str, int]:
    """Returns the line of each key that a Python file writes in a dict literal.

    Args:
        text: The file.
        main: Name of the variable that holds the main config, and its value.
        create: The same of the create config.
        made: The function `gen_params` returns both.
    """
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return {}
    maker = next(
        (n for n in body if made and isinstance(n, ast.FunctionDef) and n.name == "gen_params"),
        None,
    )
    lines = _Lines([*_assigned(body), *(_assigned(maker.body) if maker else [])], {})
    if maker is None:
        for name, value in (create, main):  # the main config wins
            lines.visit(ast.Name(name), "", value, len(text))
        return lines.found
    for node in ast.walk(maker):
        if isinstance(node, ast.Return) and node.value is not None:
            lines.returned(node.value, main, create)
    return lines.found


@dataclass(frozen=True, slots=True)
class _Assignment:
    name: str
    keys: tuple[str, ...]
    value: ast.expr
    line: int


def _assigned(body: Sequence[ast.stmt]) -> list[_Assignment]:
    """Lists `x = …`, `x["a"]["b"] = …` and `x.a.b = …` in their order."""
    return [
        _Assignment(chain[0], chain[1], statement.value, statement.lineno)
        for statement in body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if (chain := _chain(target)) is not None
    ]


def _chain(target: ast.expr) -> tuple[str, tuple[str, ...]] | None:
    if isinstance(target, ast.Name):
        return target.id, ()
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        key = str(target.slice.value)
    elif isinstance(target, ast.Attribute):
        key = target.attr
    else:
        return None
    above = _chain(target.value)
    return None if above is None else (above[0], (*above[1], key))


@dataclass(slots=True)
class _Lines:
    assigned: list[_Assignment]
    found: dict[str, int]
    depth: int = 0

    def visit(self, node: ast.expr, path: str, value: Any, before: int) -> None:
        """Notes the lines of the keys in an expression that gave `value`."""
        if self.depth > _MAX_DEPTH:
            return
        self.depth += 1
        if isinstance(node, ast.Name):
            self._name(node.id, path, value, before)
        elif isinstance(node, ast.Dict):
            self._pairs(zip(node.keys, node.values, strict=True), path, value, before)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _DICTS:
            for argument in node.args:
                self.visit(argument, path, value, before)
            self._pairs(((word, word.value) for word in node.keywords), path, value, before)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            self.visit(node.left, path, value, before)
            self.visit(node.right, path, value, before)
        elif isinstance(node, ast.List | ast.Tuple) and _has_length(value, len(node.elts)):
            for index, (item, each) in enumerate(zip(node.elts, value, strict=True)):
                self._note(f"{path}[{index}]", item.lineno, item, each)
        self.depth -= 1

    def returned(self, node: ast.expr, main: tuple[str, Any], create: tuple[str, Any]) -> None:
        """Notes the lines of what `gen_params` returns: a pair, a dict with both, or one dict."""
        if isinstance(node, ast.Tuple | ast.List) and len(node.elts) == 2:
            for item, (_, value) in zip(node.elts[::-1], (create, main), strict=True):
                self.visit(item, "", value, node.lineno)
            return
        both = _Lines(self.assigned, {})
        both.visit(node, "", dict((create, main)), node.lineno)
        below = {path.partition(".")[2]: line for path, line in both.found.items() if "." in path}
        self.found.update(below)
        if not both.found:
            self.visit(node, "", main[1], node.lineno)

    def _pairs(self, pairs: Iterable[tuple[Any, Any]], path: str, value: Any, before: int) -> None:
        for key, item in pairs:
            name = getattr(key, "arg", None) or getattr(key, "value", None)
            if key is None or (isinstance(key, ast.keyword) and key.arg is None):
                self.visit(item, path, value, before)
            elif isinstance(key, ast.keyword | ast.Constant):
                self._note(join(path, name), key.lineno, item, _item(value, name))

    def _name(self, name: str, path: str, value: Any, before: int) -> None:
        own = [each for each in self.assigned if each.name == name and each.line < before]
        whole = [index for index, each in enumerate(own) if not each.keys]
        for each in own[whole[-1] :] if whole else []:
            at, below = path, value
            for key in each.keys:
                at, below = join(at, key), _item(below, key)
            if each.keys and below is not _ABSENT and _agrees(each.value, below):
                self.found[at] = each.line
            self.visit(each.value, at, below, each.line)

    def _note(self, at: str, line: int, item: ast.expr, value: Any) -> None:
        if value is _ABSENT or not _agrees(item, value):
            self.found.pop(at, None)
            return
        self.found[at] = line
        self.visit(item, at, value, item.lineno + 1)


def _has_length(value: Any, length: int) -> bool:
    return isinstance(value, list | tuple) and len(value) == length


def _item(value: Any, key: object) -> Any:
    return value.get(key, _ABSENT) if isinstance(value, Mapping) else _ABSENT


def _agrees(node: ast.expr, value: Any) -> bool:
    """Returns whether a literal can be what gave a value."""
    if isinstance(node, ast.Constant):
        return type(node.value) is type(value) and bool(node.value == value)
    return isinstance(value, Mapping) or not isinstance(node, ast.Dict)
