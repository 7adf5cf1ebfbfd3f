"""The page of exit codes has every code that an error of dicore has, and no other of errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dicore import errors
from dicore.cli import main
from dicore.errors import DicoreError

PAGE = Path(__file__).parents[2] / "docs/howto/commands.md"


def codes() -> set[int]:
    rows = re.findall(r"^\| ([\d, ]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {int(code) for row in rows for code in row.split(",")}


def classes(of: type[DicoreError] = DicoreError) -> Iterator[type[DicoreError]]:
    yield of
    for each in of.__subclasses__():
        if each.__module__.startswith("dicore"):
            yield from classes(each)


def test_the_page_has_the_codes_of_all_errors() -> None:
    assert {each.exit_code for each in classes()} | {0, 75, 130, 141, 143} == codes()
    assert errors.CheckpointError.exit_code == 4


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["list"], 0),
        (["search", "no_such_word_anywhere"], 1),
        (["status", "nowhere"], 2),
        (["train", "-e", "nothing", "-p", "dqn"], 2),
        (["list", "--nothing"], 2),
    ],
)
def test_commands_end_with_the_codes_of_the_page(
    words: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dicore_tools")
    monkeypatch.chdir(tmp_path)
    assert main(words) == code
