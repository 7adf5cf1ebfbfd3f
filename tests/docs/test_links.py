"""Links to files of the repository have a target; Sphinx also checks links between pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from docs.generate import pages

ROOT = Path(__file__).parents[2]
WRITTEN = sorted(
    path.relative_to(ROOT)
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if not {"_build", "generated"} & set(path.relative_to(ROOT).parts)
)


def links_of(text: str) -> Iterator[str]:
    """Yields the targets of links and images."""
    for block in MarkdownIt("commonmark").enable("table").parse(text):
        for token in block.children or ():
            for name in ("href", "src"):
                if target := token.attrGet(name):
                    yield str(target)


def broken(path: Path, text: str, root: Path = ROOT) -> list[str]:
    """Returns the links of a page whose target neither exists nor is generated."""
    made = {f"docs/generated/{name}" for name in pages()}
    bad = []
    for target in links_of(text):
        if re.match(r"\w+:|#", target):
            continue
        file = (root / path.parent / target.partition("#")[0]).resolve()
        known = file.is_relative_to(root.resolve()) and str(file.relative_to(root.resolve()))
        if not file.exists() and known not in made:
            bad.append(target)
    return bad


@pytest.mark.parametrize("path", WRITTEN, ids=str)
def test_the_links_of_a_page_have_targets(path: Path) -> None:
    assert broken(path, (ROOT / path).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", [name for name in pages() if not name.startswith("parts/")])
def test_the_links_of_a_generated_page_have_targets(name: str) -> None:
    path = Path("docs/generated") / name
    text = pages()[name].replace("](#", "](http:#")
    assert broken(path, text) == []


def test_a_broken_link_is_found() -> None:
    text = "[a](nowhere.md) [b](README.md) ![c](docs/images/none.svg) [d](https://x.org) [e](#f)"
    assert broken(Path("README.md"), text) == ["nowhere.md", "docs/images/none.svg"]
    assert broken(Path("docs/index.md"), "[a](generated/cli/train.md) [b](generated/no.md)") == [
        "generated/no.md"
    ]
