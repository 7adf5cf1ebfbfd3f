"""Generates the reference pages from the registry, the commands and the code.

`pages()` returns them by path; `write()` writes them, and the notebooks, to `docs/generated/`,
where the handwritten pages and their tables of contents link to them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from docs.generate.api import api_pages
from docs.generate.commands import command_pages
from docs.generate.components import component_pages
from docs.generate.contracts import contract_parts
from docs.generate.notebooks import notebooks

__all__ = ["pages", "version", "write"]


@cache
def pages() -> dict[str, str]:
    """Returns the text of every generated page (Markdown) by its path below `docs/generated`."""
    return {**component_pages(), **command_pages(), **contract_parts(), **api_pages()}


def write(folder: Path) -> None:
    """Writes changed pages only, so that Sphinx rebuilds little, and deletes stale ones."""
    wanted = {folder / name: text for name, text in {**pages(), **notebooks()}.items()}
    for path, text in wanted.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in {*folder.rglob("*.md"), *folder.rglob("*.ipynb")} - wanted.keys():
        path.unlink()


def version() -> str:
    """Returns dicore's version."""
    import dicore

    return dicore.__version__
