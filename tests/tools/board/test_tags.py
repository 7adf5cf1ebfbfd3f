"""Tags are kept beside the runs, whose own files never change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dicore.errors import UsageError
from dicore_tools.board.tags import FILE, Tags
from tests.tools.conftest import mtimes


def test_tags_are_kept_beside_the_run(runs: Path) -> None:
    before = mtimes(runs / "a_s0")
    Tags().change(runs / "a_s0", add=["good  one", "x"])
    Tags().change(runs / "a_s0", add=["best"], remove=["x"])
    assert Tags().of(runs / "a_s0") == ["best", "good one"]
    assert Tags().of(runs / "a_s1") == []
    assert mtimes(runs / "a_s0") == before


def test_tags_that_another_board_wrote_are_seen_and_kept(runs: Path) -> None:
    first, second = Tags(), Tags()
    first.change(runs / "a_s0", add=["one"])
    assert second.of(runs / "a_s0") == ["one"]
    second.change(runs / "a_s1", add=["two"])
    first.change(runs / "a_s0", add=["three"])
    assert (second.of(runs / "a_s0"), first.of(runs / "a_s1")) == (["one", "three"], ["two"])


@pytest.mark.parametrize("tag", ["", "  ", "x" * 41, "a\x00b", "\u202eabc"])
def test_what_is_not_a_tag_is_refused(runs: Path, tag: str) -> None:
    with pytest.raises(UsageError, match="not a tag"):
        Tags().change(runs / "a_s0", add=[tag])
    assert not (runs / FILE).exists()


def test_a_run_has_a_few_tags(runs: Path) -> None:
    Tags().change(runs / "a_s0", add=[str(number) for number in range(20)])
    with pytest.raises(UsageError, match="20 tags already"):
        Tags().change(runs / "a_s0", add=["more"])


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"tags": 1}',
        '{"tags": {"a_s0": 5}}',
        '{"tags": {"a_s0": [1, null]}}',
        "[" * 9999,
    ],
)
def test_a_damaged_file_has_no_tags(runs: Path, content: str) -> None:
    (runs / FILE).write_text(content)
    assert Tags().of(runs / "a_s0") == []
    Tags().change(runs / "a_s0", add=["x"])
    assert json.loads((runs / FILE).read_text())["tags"] == {"a_s0": ["x"]}


def test_a_link_is_neither_read_nor_written_through(runs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text(json.dumps({"tags": {"a_s0": ["theirs"]}}))
    (runs / FILE).symlink_to(other)
    assert Tags().of(runs / "a_s0") == []
    Tags().change(runs / "a_s0", add=["mine"])
    assert json.loads(other.read_text())["tags"] == {"a_s0": ["theirs"]}


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        Tags().change(tmp_path / "gone/run", add=["x"])
