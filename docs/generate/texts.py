"""The pages as Markdown beside their HTML, and `llms.txt`, which lists them for programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["write_texts"]

_HEAD = """# dicore

> A modular reinforcement-learning framework: choose every component by name.

Install it with `pip install dicore[all]`. `dicore list --json` has the components, and
`dicore show KIND/NAME --json` their options.
"""
_SECTIONS = {
    "": "Start",
    "howto": "How to",
    "concepts": "Concepts",
    "generated/cli": "Commands",
    "generated/components": "Components and their options",
    "decisions": "Optional",
}
"""Headings by folder, in order; pages of others, such as the Python reference, are directives."""
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def write_texts(docs: Path, out: Path) -> list[str]:
    """Writes the Markdown of all pages into a built site, and `llms.txt`.

    Args:
        docs: Folder of the sources.
        out: Folder of the HTML files.

    Returns:
        The paths of the pages, as `llms.txt` lists them.
    """
    lines, paths = [_HEAD], []
    for folder, heading in _SECTIONS.items():
        rows = []
        for source in sorted((docs / folder).glob("*.md")):
            path = source.relative_to(docs).as_posix()
            if not (out / path).with_suffix(".html").is_file():
                continue
            text = source.read_text(encoding="utf-8")
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (out / path).write_text(text, encoding="utf-8")
            title, about = _described(text, source.stem)
            rows.append(f"- [{title}]({path})" + f": {about}" * bool(about))
            paths.append(path)
        if rows:
            lines += [f"## {heading}\n", *rows, ""]
    (out / "llms.txt").write_text("\n".join(lines), encoding="utf-8")
    return paths


def _described(text: str, name: str) -> tuple[str, str]:
    """Returns the title of a page and its first sentence."""
    title = _TITLE.search(text)
    first = next(_paragraphs(text), "")
    sentence = re.split(r"(?<=[.:!?])\s", " ".join(first.split()))[0]
    return (title[1].strip("`") if title else name), re.sub(
        r"\[([^]]+)\]\([^)]*\)", r"\1", sentence
    )


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.strip() and paragraph.lstrip()[0] not in "#`|(<![-:{":
            yield paragraph
