"""A release is prepared if nothing is in its way."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from release.prepare import (
    ROOT,
    join_unreleased,
    obstacles,
    taken_back,
    versioned,
    write_version,
)


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


def test_bounds_are_written_wherever_they_stand(checkout: Path) -> None:
    """A plugin that `dicore new plugin` writes must allow the version that wrote it."""
    files = {
        "plugins/new.tmpl": "needs: dicore-plugins>=0.1,<0.2\n",
        "page.md": '`dicore[all]>=0.1,<0.2` and "dicore>=0.1,<0.2"\n',
        "CHANGELOG.md": "dicore>=0.1,<0.2\n",
        "other.toml": '"gymnasium>=0.1,<0.2"\n',
    }
    for name, text in files.items():
        (checkout / name).write_text(text)
    commit(checkout)
    write_version("0.2.0", checkout)
    found = [(checkout / name).read_text() for name in files]
    assert found[0] == "needs: dicore-plugins>=0.2,<0.3\n"
    assert found[1] == '`dicore[all]>=0.2,<0.3` and "dicore>=0.2,<0.3"\n'
    assert found[2:] == list(files.values())[2:]


def test_what_was_not_released_yet_is_part_of_the_release(tmp_path: Path) -> None:
    file = tmp_path / "CHANGELOG.md"
    file.write_text(
        "# Changelog\n\n## 0.2.0 (2030-01-01)\n\n### Added\n\n- New.\n\n"
        "## 0.2.0 (not released)\n\nIn short.\n\n- Old.\n\n## 0.1.0\n\nFirst.\n"
    )
    join_unreleased("0.2.0", file)
    joined = (
        "# Changelog\n\n## 0.2.0 (2030-01-01)\n\nIn short.\n\n- Old.\n\n### Added\n\n- New.\n\n"
        "## 0.1.0\n\nFirst.\n"
    )
    assert file.read_text() == joined
    join_unreleased("0.2.0", file)
    assert file.read_text() == joined


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, OSError])
def test_an_interrupted_release_takes_back_what_it_wrote(
    error: type[BaseException], checkout: Path
) -> None:
    @taken_back(checkout)
    def release() -> None:
        write_version("0.2.0", checkout)
        git(checkout, "rm", "-q", "changes/one.added.md")  # as towncrier does
        raise error

    with pytest.raises(error):
        release()
    assert [*obstacles("0.2.0", checkout)] == []
    assert (checkout / "changes/one.added.md").is_file()


def test_a_release_without_its_tag_says_how_to_tag_it(checkout: Path) -> None:
    write_version("0.2.0", checkout)
    git(checkout, "commit", "-qam", "release: 0.2.0")
    (told,) = obstacles("0.2.0", checkout)
    assert told == "v0.2.0: committed already; git tag -a v0.2.0 -m 'dicore 0.2.0'"
