"""Generates a page per kind with its components, their options and papers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dicore_registry import default
from docs.generate.commands import page_of
from docs.generate.papers import papers_of
from docs.generate.query import components, kinds, promise

_SHARED = 3
"""Kinds with at least this many components list common options once."""
_DOCS = Path(__file__).parents[1]
Facts = dict[str, Any]


def component_pages() -> dict[str, str]:
    """Returns a page per kind and the index of them."""
    by_kind = {name: [facts for facts in components() if facts["kind"] == name] for name in kinds()}
    index = [
        "# Components",
        "All components of dicore's own packages, by kind. The pages are generated from the output"
        " of `dicore list` and `dicore show`.",
        _table(
            ("Kind", "Role", "Components", "Default"),
            [
                (
                    f"[{name}]({name}.md)",
                    kinds()[name].summary,
                    ", ".join(f"[{item['name']}](#{_anchor(item)})" for item in found) or "none",
                    f"`{default().default(name)}`" if default().default(name) else "",
                )
                for name, found in by_kind.items()
            ],
        ),
        _toctree(by_kind),
    ]
    pages = {f"components/{name}.md": _kind_page(name, found) for name, found in by_kind.items()}
    return {"components/index.md": _page(index), **pages}


def _kind_page(name: str, found: Sequence[Facts]) -> str:
    kind = kinds()[name]
    section = f"Its config section is `{kind.section}`." if kind.section else ""
    parts = [
        f"# {name}",
        f"{_sentence(kind.summary)} {section} Contract and example:"
        f" [{name}](../../concepts/{name}.md).",
    ]
    if not found:
        parts.append("dicore contains no component of this kind; other packages can provide one.")
    shared = _shared(found)
    if shared:
        parts += ["## Common options", _options(shared)]
    for facts in found:
        parts += _component(facts, [option["name"] for option in shared])
    return _page(parts)


def _component(facts: Facts, common: Sequence[str]) -> list[str]:
    """Returns the section of one component without the common options."""
    parts = [f"({_anchor(facts)})=\n## {facts['name']}", _doc(facts)]
    parts += promise(f"{facts['kind']}/{facts['name']}")
    if facts["kind"] == "command":
        spelling = facts["name"].replace("_", "-")
        parts.append(f"Options: [dicore {spelling}](../cli/{page_of(facts['name'])}.md).")
    picture = f"images/{facts['kind']}s/{facts['name']}.svg"
    if (_DOCS / picture).is_file():
        parts.append(f"![The middleware of {facts['name']} and their fields](../../{picture})")
    papers = papers_of(facts)
    if papers:
        parts.append(f"Papers: {', '.join(papers)}.")
    own = [option for option in facts["options"] if option["name"] not in common]
    if own:
        parts.append(_options(own))
    elif facts["options"]:
        parts.append("No further options.")
    if facts["tree"] is not None:
        parts.append(f"```{{code-block}} json\n{json.dumps(facts['tree'], indent=2)}\n```")
    parts.append(f"*Package: `{facts['dist']}`; code: `{facts['target']}`.*")
    return parts


def _doc(facts: Facts) -> str:
    """Returns the docstring without its arguments, which are in the table."""
    kept = []
    for part in facts["doc"].split("\n\n"):
        if part.startswith(("Args:", "Returns:", "Raises:", "\b", "Examples:")):
            break
        kept.append(part)
    return "\n\n".join(kept)


def _shared(found: Sequence[Facts]) -> list[dict[str, Any]]:
    """Returns the options that all components of a kind share with the same default."""
    if len(found) < _SHARED:
        return []
    first, *others = (facts["options"] for facts in found)
    return [option for option in first if all(option in options for options in others)]


def _options(options: Iterable[dict[str, Any]]) -> str:
    return _table(
        ("Option", "Type and range", "Default", "Meaning"),
        [
            (
                f"`{option['path']}`",
                _type(option),
                "*required*" if option["required"] else f"`{_default(option['default'])}`",
                _sentence(option["help"]) + (f" [{option['unit']}]" if option["unit"] else ""),
            )
            for option in options
        ],
    )


def _type(option: dict[str, Any]) -> str:
    if option["choices"]:
        return " or ".join(f"`{choice!r}`" for choice in option["choices"])
    words = f"`{option['type']}`"
    return f"{words}, {option['range']}" if option["range"] else words


def _default(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"type"}:
        return str(value["type"])
    if isinstance(value, list):
        return f"[{', '.join(map(_default, value))}]"
    return value if isinstance(value, str) and value else repr(value)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "." if text else ""


def _anchor(facts: Facts) -> str:
    return f"{facts['kind']}-{facts['name']}".replace("_", "-")


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _toctree(names: Iterable[str]) -> str:
    listed = "\n".join(names)
    return f"```{{toctree}}\n:hidden:\n\n{listed}\n```"


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
