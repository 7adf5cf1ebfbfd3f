"""Every snippet of the written pages and of the README does what the page says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.snippets import Page, Snippet, commands_of, matches, snippets_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path.relative_to(ROOT)
    for path in [ROOT / "README.md", *DOCS.rglob("*.md")]
    if not {"_build", "generated", "decisions"} & set(path.relative_to(DOCS.parent).parts)
)
TRAINED = "runs/cartpole_dqn_s0"


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a run that was cut short, for pages that only look at one."""
    folder = tmp_path_factory.mktemp("trained")
    page = Page(Path("trained"), folder)
    command = "dicore train -e cartpole -p dqn -s 0 --max-env-step 1000"
    page.run(Snippet("console", f"$ {command}\nbudget spent", 1))
    return folder


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_the_snippets_of_a_page_run(path: Path, tmp_path: Path, trained: Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    if f"<!-- needs: {TRAINED} -->" in text:
        shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    page = Page(path, tmp_path)
    for snippet in snippets_of(text):
        page.run(snippet)
