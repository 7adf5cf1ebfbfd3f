"""The site builds without warnings, and a wrong page fails the build."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(source: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "sphinx", "-W", "-n", "--keep-going", "-q", *options]
    return subprocess.run(
        [*words, "-d", str(out / "doctrees"), "-b", "html", str(source), str(out / "html")],
        cwd=ROOT, capture_output=True, text=True, timeout=1500, check=False,
    )  # fmt: skip


@pytest.mark.timeout(1600)  # two minutes of one core, which other processes may need too
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    # The navigation of each page would hold all classes and methods, and furo writes it with its
    # icons: two thirds of the time. The next test has the theme.
    done = build(ROOT / "docs", tmp_path, "-D", "toc_object_entries=0", "-D", "html_theme=basic")
    assert done.stderr == ""
    assert done.returncode == 0
    html = tmp_path / "html"
    for page in ("index", "quickstart", "generated/components/policy", "generated/cli/train"):
        assert (html / f"{page}.html").is_file()
    policy = (html / "generated/components/policy.html").read_text(encoding="utf-8")
    assert 'href="https://doi.org/10.1038/nature14236"' in policy
    buffer = (html / "concepts/buffer.html").read_text(encoding="utf-8")
    assert "overwrites_the_oldest_samples" in buffer  # the checks
    assert 'href="../generated/api/errors.html#dicore.errors.SchemaError"' in buffer  # Raises:


def test_a_wrong_link_and_a_wrong_reference_fail_the_build(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    (source / "conf.py").write_text(
        "extensions = ['myst_parser', 'sphinx.ext.autodoc']\nnitpicky = True\nhtml_theme = 'furo'\n"
        f"templates_path = ['{ROOT}/docs/_templates']\nhtml_context = {{'site_version': '0.1'}}\n"
    )
    (source / "index.md").write_text("# Page\n\n[a](nowhere.md) {py:class}`dicore.run.Rum`\n")
    done = build(source, tmp_path)
    assert done.returncode == 1
    assert "nowhere.md" in done.stderr
    assert "dicore.run.Rum" in done.stderr
    assert len(done.stderr.splitlines()) == 2  # the theme and our templates have no warning
    assert "versions.js" in (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
