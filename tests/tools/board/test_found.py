"""Runs below the given folders are found, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dicore.errors import UsageError
from dicore_tools.board.found import check_places, find_folders
from tests.tools.reports.test_curves import make_run


def names(*places: Path) -> list[str]:
    return sorted(find_folders(places).values())


def test_runs_are_named_by_their_path_below_the_place(runs: Path) -> None:
    make_run(runs / "deep/er/c", [(0, 1.0)])
    assert names(runs) == ["a_s0", "a_s1", "b_s0", "deep/er/c"]
    assert names(runs / "a_s0") == ["a_s0"]
    assert names(runs / "a_s0", runs / "deep") == ["a_s0", "deep/er/c"]


def test_a_folder_of_runs_may_be_called_as_a_part_of_a_run(tmp_path: Path) -> None:
    for place in ("log/a", "video/b", "c", "c/log/d"):
        make_run(tmp_path / place, [(0, 1.0)])
    assert names(tmp_path) == ["c", "log/a", "video/b"]


def test_runs_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    one, two = (make_run(tmp_path / each / "s0", [(0, 1.0)]) for each in ("one", "two"))
    assert names(one, two) == [str(one), str(two)]


def test_a_run_in_two_places_is_one(runs: Path) -> None:
    assert len(find_folders([runs, runs / "a_s0", runs / "../runs"])) == 3


def test_runs_that_are_damaged_or_only_begun_are_found(runs: Path) -> None:
    (runs / "a_s0/run.json").unlink()
    (runs / "a_s1/config.json").unlink()
    (runs / "a_s1/run.json").write_text("{")
    assert names(runs) == ["a_s0", "a_s1", "b_s0"]


def test_a_config_of_another_program_is_not_a_run(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    assert names(tmp_path) == []


def test_links_hidden_folders_and_checkpoints_are_not_searched(runs: Path, tmp_path: Path) -> None:
    make_run(tmp_path / "outside/x", [(0, 1.0)])
    (runs / "link").symlink_to(tmp_path / "outside")
    make_run(runs / ".trash/y", [(0, 1.0)])
    make_run(runs / "a_s0/ckpt/z", [(0, 1.0)])
    assert names(runs) == ["a_s0", "a_s1", "b_s0"]


def test_runs_of_a_summary_are_found(runs: Path) -> None:
    summary = runs / "summary.json"
    summary.write_text(json.dumps({"runs": [{"folder": str(runs / "a_s0")}]}))
    assert names(summary) == ["a_s0"]
    summary.write_text("{")
    assert names(summary) == []


def test_a_place_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        check_places([tmp_path, tmp_path / "nothing"])
