"""Programs that read find every page as text."""

from __future__ import annotations

import re
from pathlib import Path

from docs.generate.texts import write_texts

DOCS = Path(__file__).parents[2] / "docs"


def built(out: Path, *pages: str) -> None:
    for page in pages:
        (out / page).parent.mkdir(parents=True, exist_ok=True)
        (out / page).touch()


def test_each_page_that_was_built_is_listed_with_what_it_is_about(tmp_path: Path) -> None:
    built(tmp_path, "quickstart.html", "howto/tune.html", "concepts/security.html")
    paths = write_texts(DOCS, tmp_path)
    assert paths == ["quickstart.md", "howto/tune.md", "concepts/security.md"]
    assert (tmp_path / "howto/tune.md").read_text() == (DOCS / "howto/tune.md").read_text()
    listed = (tmp_path / "llms.txt").read_text()
    assert listed.startswith("# dicore\n\n> ")
    rows = re.findall(r"^- \[(.+?)\]\((\S+)\): (.+)$", listed, re.MULTILINE)
    assert [row[1] for row in rows] == paths
    assert rows[2][0] == "Security"
    assert rows[2][2].startswith("This page says what dicore defends against")
    assert all(row[2].endswith((".", ":")) for row in rows)


def test_every_written_page_has_a_title_and_a_first_sentence(tmp_path: Path) -> None:
    sources = [
        page for folder in ("", "howto", "concepts") for page in (DOCS / folder).glob("*.md")
    ]
    built(tmp_path, *(str(page.relative_to(DOCS).with_suffix(".html")) for page in sources))
    assert len(write_texts(DOCS, tmp_path)) == len(sources)
    bare = re.findall(r"^- \[.+?\]\(\S+\)$", (tmp_path / "llms.txt").read_text(), re.MULTILINE)
    assert bare == []
