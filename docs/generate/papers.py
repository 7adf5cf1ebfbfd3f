"""Collects the papers that a component cites in its docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

_CITED = re.compile(
    r"(?P<who>[A-Z][\w-]+(?: et al\.| and [A-Z][\w-]+)?|van Hasselt et al\.)"
    r" (?P<year>(?:19|20)\d\d)"
    r"(?:, (?P<scheme>doi|arXiv):(?P<key>[\w./-]*\w))?"
)
_ADDRESS = {"doi": "https://doi.org/", "arXiv": "https://arxiv.org/abs/"}


def papers_of(facts: dict[str, Any]) -> list[str]:
    """Returns the papers as Markdown links in the order of citation.

    Args:
        facts: The component's output of `dicore show --json`.
    """
    found: dict[str, str] = {}
    for text in _texts(facts):
        for match in _CITED.finditer(text):
            name = f"{match['who']} {match['year']}"
            link = f"[{name}]({_ADDRESS[match['scheme']]}{match['key']})" if match["key"] else name
            if match["key"] or name not in found:
                found[name] = link
    return list(found.values())


def _texts(facts: dict[str, Any]) -> Iterator[str]:
    """Yields the component's docstring, option helps and the docstrings of its own folder."""
    yield facts["doc"]
    for option in facts["options"]:
        yield option["help"]
    file = Path(facts["file"])
    if file.name == "config.py":  # the component has its own folder
        for path in sorted(file.parent.glob("*.py")):
            yield from _docstrings(path)


@cache  # several components share a folder
def _docstrings(path: Path) -> list[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    return [ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)]
