"""The page about the path of a value names the files of a real run, and no others."""

from __future__ import annotations

import pytest

from benchmarks.files_entered import files_entered
from docs.generate.path import NAMES, PAGE, limits, listed, traced

TEXT = PAGE.read_text(encoding="utf-8")
AGAIN = "run python -m docs.generate.path"


@pytest.mark.parametrize("name", NAMES)
def test_a_list_names_the_files_that_a_value_passes(name: str) -> None:
    passed = [file for file, _ in traced(name)]
    assert len(passed) <= limits(TEXT)[name]
    assert set(passed) - set(listed(name, TEXT)) == set(), f"missing on the page; {AGAIN}"
    assert set(listed(name, TEXT)) - set(passed) == set(), f"not on the path; {AGAIN}"
    assert listed(name, TEXT) == passed, AGAIN


def test_a_training_enters_no_more_files_than_the_page_says() -> None:
    command, env_step = files_entered()
    assert len(command) <= limits(TEXT)["command_to_optimizer"]
    assert len(env_step) <= limits(TEXT)["env_step_to_optimizer"]
    assert f"at most {limits(TEXT)['command_to_optimizer']} files" in TEXT
