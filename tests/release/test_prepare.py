"""A release is prepared if nothing is in its way."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from release.prepare import ROOT, obstacles, versioned, write_version


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the files that state versions, committed."""
    for file in versioned(ROOT):
        place = tmp_path / file.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes/one.added.md").write_text("One.")
    (tmp_path / "tests/release/recorded/0.2").mkdir(parents=True)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "all", "--allow-empty")


def test_nothing_is_in_the_way(checkout: Path) -> None:
    assert [*obstacles("0.2.0", checkout)] == []


def test_all_that_is_in_the_way_is_told_at_once(checkout: Path) -> None:
    (checkout / "changes/two.md").write_text("Two.")
    (checkout / "changes/three.fixed.md").touch()
    (checkout / "tests/release/recorded/0.2").rmdir()
    git(checkout, "tag", "v0.2.0")
    text = (checkout / "plugins/pyproject.toml").read_text()
    (checkout / "plugins/pyproject.toml").write_text(text.replace('"0.1.0"', '"0.3.0"', 1))
    told = "\n".join(obstacles("0.2.0", checkout))
    for words in (
        "different versions: ['0.1.0', '0.3.0']", "0.3.0 is stated already", "not committed",
        "such a tag", "changes/two.md: not NAME.KIND.md", "changes/three.fixed.md: empty",
        "tests/release/recorded/0.2: no runs",
    ):  # fmt: skip
        assert words in told
    assert [*obstacles("new", checkout)] == ["new: not a version; expected MAJOR.MINOR.PATCH"]
    assert "write it as" in next(obstacles("0.2", checkout))


def test_versions_and_bounds_are_written_together(checkout: Path) -> None:
    write_version("1.4.2", checkout)
    commit(checkout)
    (checkout / "tests/release/recorded/1.4").mkdir()
    assert [*obstacles("1.4.2", checkout)] == []
    text = "\n".join(file.read_text() for file in versioned(checkout))
    assert "0.1.0" not in text
    assert "version: 1.4.2\n" in text
    assert '__version__ = "1.4.2"' in text
    bounds = set(re.findall(r'"dicore[\w\[\],-]*(>=[^"]*)"', text))
    assert bounds == {">=1.4,<1.5"}
