"""Finds definition and docstring of a target by text search, without importing any module.

Parsing with `ast` would take longer than `dicore list` may. What the search does not find stays
blank.
"""

from __future__ import annotations

import importlib.util
import os
import re
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from dicore_registry.entry import Entry, Removed, Renamed
from dicore_registry.metadata import text_of

if TYPE_CHECKING:
    from dicore_registry.index import PlaceIndex

_HOPS: Final = 4
"""Maximum number of re-exports to follow."""

_DOC: Final = re.compile(r"[rRuUbB]{0,2}(\"\"\"|'''|\"|')(.*)", re.DOTALL)
_DEFINITION: Final = re.compile(
    r"^(?:(?:class|(?:async[ \t]+)?def)[ \t]+(\w+)|(\w+)[ \t]*(?::[^=\n]+)?=(?!=))", re.MULTILINE
)
_SUMMARY: Final = re.compile(r"\s+summary=([\"'])(.+)\1,$")
_VALUE: Final = re.compile(r"\w+[ \t]*(?::[^=\n]+)?=[ \t]*(?:(?:\w+\.)*(\w+)\(|([\d\"'\[-]))")
_IMPORT: Final = r"^from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)"
_GIVEN: Final = ("text", "to", "since", "summary")
_NOT_A_NEIGHBOUR: Final = (" ", "\t", ")", "]", "}", "#")


class Place(NamedTuple):
    """Where a target is defined.

    Args:
        file: The path of its file.
        line: The line of its definition, from 1; 1 for a whole module.
        summary: The first line of its docstring; "" if none was found.
        retired: Why the name is deprecated, if it is defined by `renamed` or `removed`; else "".
        constant: Type of the number, string or list that is assigned to it; else "".
    """

    file: str
    line: int
    summary: str
    retired: str = ""
    constant: str = ""

    def judge(self, entry: Entry) -> Entry:
        """Returns an entry that leads here, with the status that its definition gives it."""
        if self.retired:
            return entry._replace(status="deprecated", reason=self.retired)
        if self.constant and entry.kind not in ("api", "config_format", "run_file"):
            wanted = "a dict" if entry.kind == "preset" else "a class or function"
            reason = f"{entry.target} is of type {self.constant}, not {wanted}"
            return entry._replace(status="broken", reason=reason)
        return entry


class Sources:
    """Finds and reads the files of targets; caches their texts.

    Args:
        index: What earlier processes found.
    """

    def __init__(self, index: PlaceIndex | None = None) -> None:
        self.index = index
        self._files: dict[str, str] = {}
        self._texts: dict[str, _Text] = {}
        self._roots: dict[str, list[str]] = {}
        self._places: dict[str, Place | None] = {}

    def place(self, target: str) -> Place | None:
        """Returns where `module:attr` (or a module) is defined; None if not found."""
        if target not in self._places:
            self._places[target] = self._known(target) or self._placed(target)
        return self._places[target]

    def _known(self, target: str) -> Place | None:
        row = self.index and self.index.get(target, self.file(target.partition(":")[0]))
        return Place(*row) if row else None  # type: ignore[arg-type] # as it was written

    def _placed(self, target: str) -> Place | None:
        files: list[str] = []
        place = self._searched(target, files)
        if self.index is not None and place is not None:
            self.index.put(target, files, place)
        return place

    def _searched(self, target: str, files: list[str]) -> Place | None:
        """Returns where a target is defined; adds the files that were read to `files`."""
        module, _, attr = target.partition(":")
        for _ in range(_HOPS):
            file = self.file(module)
            files.append(file)
            text = self._text(file)
            if not text.whole:
                return None
            if not attr:
                return Place(file, 1, _literal(text.whole.lstrip("\ufeff").split("\n"), 0))
            at = text.definition(attr)
            if at is not None:
                return _place(file, text.lines, text.whole.count("\n", 0, at))
            package = os.path.basename(file) == "__init__.py"  # noqa: PTH119 - pathlib is slow here
            module, attr = _origin(text.whole, module, attr, package=package)
        return None

    def file(self, module: str) -> str:
        """Returns the path of a module's file; "" if no finder finds it."""
        if module not in self._files:
            self._files[module] = self._find(module)
        return self._files[module]

    def _find(self, module: str) -> str:
        root, *rest = module.split(".")
        if root not in self._roots:
            self._roots[root] = _root(root)
        found = self._roots[root]
        if not rest:
            return next((path for path in found if path.endswith(".py")), "")
        folders = [path for path in found if not path.endswith(".py")]
        for folder in folders:
            path = "/".join([folder, *rest])
            for file in (f"{path}.py", f"{path}/__init__.py"):
                if os.path.isfile(file):  # noqa: PTH113
                    return file
        return ""

    def _text(self, file: str) -> _Text:
        if file not in self._texts:
            whole = ""
            with suppress(OSError):
                whole = text_of(file) if file else ""
            self._texts[file] = _Text(whole)
        return self._texts[file]


class _Text:
    """The text of a file, and where its top-level names are defined."""

    def __init__(self, whole: str) -> None:
        self.whole = whole

    @cached_property
    def lines(self) -> list[str]:
        """Its lines, without their ends."""
        return self.whole.split("\n")

    def definition(self, name: str) -> int | None:
        """Returns the position of the last definition of a name; None if there is none."""
        found = max(self._last(f"\n{head}{name}", name) for head in ("class ", "def ", ""))
        if found:
            return found
        hits = _DEFINITION.finditer(self.whole)  # the slow way, for other spellings
        return {hit[1] or hit[2]: hit.start() for hit in hits}.get(name)

    def _last(self, start: str, name: str) -> int:
        """Returns where the last line begins that defines a name by this start; 0: none."""
        at = len(self.whole)
        while (at := self.whole.rfind(start, 0, at)) >= 0:
            hit = _DEFINITION.match(self.whole, at + 1)
            if hit is not None and name in hit.groups():
                return at + 1
        return 0


def _root(name: str) -> list[str]:
    """Returns the file of a top-level module and the folders of its submodules."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return []
    if spec is None:
        return []
    file = [spec.origin] if spec.origin and spec.origin.endswith(".py") else []
    return file + list(spec.submodule_search_locations or ())


def _place(file: str, lines: list[str], at: int) -> Place:
    """Returns what the definition at a line says."""
    if re.match(r"(class|def|async)[ \t]", lines[at]):
        return Place(file, at + 1, _docstring(lines, at))
    doc = _attribute_doc(lines, at)
    match = _VALUE.match(lines[at])
    call = match[1] if match is not None else ""
    named = call in ("renamed", "removed") or (call == "Kind" and not doc)
    if match is None or (call and not named):
        return Place(file, at + 1, doc)
    import ast  # late: few targets are neither class, function nor dict

    given: dict[str, str] = {}
    constant = ""
    try:
        value = ast.parse("\n".join(lines[at : _after(lines, at)])).body[0].value  # type: ignore[attr-defined]
        if isinstance(value, ast.Call):
            order = ("name", "summary") if call == "Kind" else ("text", "since")
            words = [*zip(order, value.args, strict=False)]
            words += [(each.arg or "", each.value) for each in value.keywords]
            given = {name: str(ast.literal_eval(each)) for name, each in words if name in _GIVEN}
        elif not call:
            constant = type(ast.literal_eval(value)).__name__
    except (SyntaxError, ValueError):
        pass  # not literal: what it is shows when it is imported
    if {"to", "text"} & given.keys() and "since" in given:
        retired = Renamed if call == "renamed" else Removed
        text = given.get("to") or given["text"]
        return Place(file, at + 1, doc, retired(text, given["since"]).reason)
    return Place(file, at + 1, doc or given.get("summary", ""), constant=constant)


def _after(lines: list[str], at: int) -> int:
    """Returns the line index after an assignment that begins at a line."""
    for index in range(at + 1, len(lines)):
        if lines[index].strip() and not lines[index].startswith(_NOT_A_NEIGHBOUR):
            return index
    return len(lines)


def _docstring(lines: list[str], at: int) -> str:
    """Returns the string that follows the header of a class or function."""
    for index in range(at, len(lines)):
        line = lines[index].partition("#")[0].rstrip()
        if index > at and line and not line.startswith(_NOT_A_NEIGHBOUR):
            return ""  # the next definition: the header ended on its own line
        if line.endswith(":"):
            return _literal(lines, index + 1)
    return ""


def _attribute_doc(lines: list[str], at: int) -> str:
    """Returns the string directly below an assignment, or its `summary=` (of a kind)."""
    end = _after(lines, at)
    summaries = (match[2] for line in lines[at + 1 : end] if (match := _SUMMARY.match(line)))
    return next(summaries, "") or _literal(lines, end)


def _literal(lines: list[str], start: int) -> str:
    """Returns the first line of the string literal that begins at the first line of code."""
    for index in range(start, len(lines)):
        line = lines[index].strip()
        if not line or line.startswith("#"):
            continue
        match = _DOC.match(line)
        if match is None:
            return ""
        quote, summary = match[1], ""
        for each in [match[2], *lines[index + 1 :]] if len(quote) == 3 else [match[2]]:
            body, closed, _ = each.partition(quote)
            summary = summary or body.strip()
            if closed:
                return summary
    return ""


def _origin(text: str, module: str, attr: str, *, package: bool) -> tuple[str, str]:
    """Returns the origin of a re-exported name; ("", "") if it is not imported by name."""
    for match in re.finditer(_IMPORT, text, re.MULTILINE):
        dots, source, names = match.groups()
        for item in names.strip("()").replace("\n", ",").split(","):
            words = item.partition("#")[0].split()
            if not words or words[-1] != attr:
                continue
            if dots:
                parts = module.split(".")
                keep = len(parts) - len(dots) + package
                source = ".".join([*parts[:keep], *filter(None, [source])])
            return source, words[0]
    return "", ""
