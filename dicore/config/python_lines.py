"""The lines of keys in a Python config: where its dict literals write them.

Values that code computes have no line. Nothing is run here; what a file is found to hold is
compared with what running it gave, so that a literal which code changed later is not blamed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dicore.config.plain import join

__all__ = ["python_lines"]

_DICTS = frozenset({"dict", "EasyDict", "OrderedDict", "deepcopy", "copy"})
_DEEPEST = 40
_MISSING = object()


def python_lines(
    text: str, main: tuple[str, Any], create: tuple[str, Any], maker: str = ""
) -> dict[str, int]:
    """Returns the line of each key that a Python file writes in a dict literal.

    Args:
        text: The file.
        main: Name of the variable that holds the main config, and its value.
        create: The same of the create config.
        maker: Name of a function that returns both; "" for none.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    lines: dict[str, int] = {}
    function = next(
        (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == maker), None
    )
    for index, (name, value) in enumerate((create, main)):  # the main config has the last word
        walk = _Walk(_assignments(tree.body), lines)
        if function is None:
            walk.name(name, "", value, len(text))
        else:
            walk = _Walk([*_assignments(tree.body), *_assignments(function.body)], lines)
            walk.returned(function, 1 - index, name, value)
    return lines


@dataclass(frozen=True, slots=True)
class _Assigned:
    name: str
    keys: tuple[str, ...]
    value: ast.expr
    line: int


def _assignments(body: Sequence[ast.stmt]) -> list[_Assigned]:
    """Lists `x = …`, `x["a"]["b"] = …` and `x.a.b = …` in their order."""
    found = []
    for statement in body:
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets = [statement.target]
        for target in targets:
            chain = _chain(target)
            value = statement.value  # type: ignore[attr-defined]
            if chain is not None:
                found.append(_Assigned(chain[0], chain[1], value, statement.lineno))
    return found


def _chain(target: ast.expr) -> tuple[str, tuple[str, ...]] | None:
    keys: list[str] = []
    while not isinstance(target, ast.Name):
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            keys.append(str(target.slice.value))
        elif isinstance(target, ast.Attribute):
            keys.append(target.attr)
        else:
            return None
        target = target.value
    return target.id, tuple(reversed(keys))


@dataclass(slots=True)
class _Walk:
    assigned: list[_Assigned]
    lines: dict[str, int]
    depth: int = field(default=0)

    def returned(self, function: ast.FunctionDef, which: int, name: str, value: Any) -> None:
        """Walks what a function returns: a pair, or a dict with both."""
        for node in ast.walk(function):
            if not isinstance(node, ast.Return) or node.value is None:
                continue
            if isinstance(node.value, ast.Tuple | ast.List) and len(node.value.elts) == 2:
                self.expression(node.value.elts[which], "", value, node.lineno)
                continue
            below = _Walk(self.assigned, {}, self.depth)
            whole = {name: value}
            below.expression(node.value, "", whole if value else value, node.lineno)
            start = f"{name}."
            for path, line in below.lines.items():
                if path.startswith(start):
                    self.lines[path.removeprefix(start)] = line
            if not any(path == name or path.startswith(start) for path in below.lines):
                self.expression(node.value, "", value, node.lineno)

    def name(self, name: str, path: str, value: Any, before: int) -> None:
        """Walks what a variable holds before a line."""
        mine = [each for each in self.assigned if each.name == name and each.line < before]
        whole = [index for index, each in enumerate(mine) if not each.keys]
        for each in mine[whole[-1] :] if whole else []:
            at, held = path, value
            for key in each.keys:
                at, held = join(at, key), _below(held, key)
            if each.keys and held is not _MISSING and _agrees(each.value, held):
                self.lines[at] = each.line
            self.expression(each.value, at, held, each.line)

    def expression(self, node: ast.expr, path: str, value: Any, before: int) -> None:
        if self.depth > _DEEPEST:
            return
        self.depth += 1
        if isinstance(node, ast.Name):
            self.name(node.id, path, value, before)
        elif isinstance(node, ast.Dict):
            self._dict(node, path, value, before)
        elif isinstance(node, ast.Call) and _callee(node) in _DICTS:
            self._call(node, path, value, before)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            self.expression(node.left, path, value, before)
            self.expression(node.right, path, value, before)
        elif isinstance(node, ast.List | ast.Tuple):
            self._items(node.elts, path, value)
        self.depth -= 1

    def _dict(self, node: ast.Dict, path: str, value: Any, before: int) -> None:
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:
                self.expression(item, path, value, before)
            elif isinstance(key, ast.Constant):
                self._key(str(key.value), key.lineno, item, path, _below(value, key.value))

    def _call(self, node: ast.Call, path: str, value: Any, before: int) -> None:
        for argument in node.args:
            self.expression(argument, path, value, before)
        for word in node.keywords:
            if word.arg is None:
                self.expression(word.value, path, value, before)
            else:
                self._key(word.arg, word.lineno, word.value, path, _below(value, word.arg))

    def _key(self, key: str, line: int, item: ast.expr, path: str, held: Any) -> None:
        at = join(path, key)
        if held is _MISSING or not _agrees(item, held):
            self.lines.pop(at, None)
            return
        self.lines[at] = line
        self.expression(item, at, held, item.lineno + 1)

    def _items(self, items: Sequence[ast.expr], path: str, value: Any) -> None:
        if not isinstance(value, list | tuple) or len(value) != len(items):
            return
        for index, (item, held) in enumerate(zip(items, value, strict=True)):
            if _agrees(item, held):
                self.lines[f"{path}[{index}]"] = item.lineno
                self.expression(item, f"{path}[{index}]", held, item.lineno + 1)


def _callee(node: ast.Call) -> str:
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _below(value: Any, key: Any) -> Any:
    return value.get(key, _MISSING) if isinstance(value, Mapping) else _MISSING


def _agrees(node: ast.expr, value: Any) -> bool:
    """Says whether a literal may still be what gives a value."""
    if isinstance(node, ast.Constant):
        return type(node.value) is type(value) and bool(node.value == value)
    if isinstance(node, ast.Dict):
        return isinstance(value, Mapping)
    return True
