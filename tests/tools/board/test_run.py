"""The row of a run says what its files say, as far as they can be read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dicore_tools.board.run import BoardRun
from dicore_tools.reports.curves import TAG
from tests.tools.board.conftest import add_line
from tests.tools.reports.test_curves import make_run


def read(folder: Path) -> dict[str, Any]:
    run = BoardRun(folder, folder.name)
    run.refresh()
    return {**run.row(), "problem": run.problem}


def test_a_row_is_what_the_files_say(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", [(0, 9.0), (100, 200.0), (200, 150.0)])
    record = {
        "seed": 3,
        "status": "failed",
        "error": "NaN",
        "started": "2026-01-02T03:04:05.6+00:00",
    }
    (run / "run.json").write_text(json.dumps(record))
    assert read(run).items() >= {
        "name": "a", "state": "failed", "error": "NaN", "problem": "", "env": "cartpole",
        "policy": "dqn", "seed": "3", "best": 200.0, "last": 150.0, "env_step": 200,
        "train_iter": 100, "seconds": 2.0, "rate": 100.0, "started": "2026-01-02 03:04:05",
    }.items()  # fmt: skip


@pytest.mark.parametrize(
    ("record", "state"),
    [
        ({"status": "done", "result": {"stop": True}}, "solved"),
        ({"status": "done"}, "done"),
        ({"status": "interrupted"}, "interrupted"),
        ({"status": "running", "host": "elsewhere"}, "running"),
        ({"status": "<script>"}, "<script>"),
    ],
)
def test_states(tmp_path: Path, record: dict[str, object], state: str) -> None:
    run = make_run(tmp_path / "a", [(0, 9.0)])
    (run / "run.json").write_text(json.dumps(record))
    assert read(run)["state"] == state


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no record": lambda run: (run / "run.json").unlink(),
    "half a record": lambda run: (run / "run.json").write_text('{"status": "runn'),
    "deep record": lambda run: (run / "run.json").write_text("[" * 100_000),
    "odd record": lambda run: (run / "run.json").write_text('{"result": 5}'),
    "no config": lambda run: (run / "config.json").unlink(),
    "odd config": lambda run: (run / "config.json").write_text('{"config": {"env": 1}}'),
    "config is a folder": lambda run: (
        (run / "config.json").unlink(), (run / "config.json").mkdir()),
    "config is a link": lambda run: (
        (run / "config.json").rename(run / "x"), (run / "config.json").symlink_to(run / "x")),
    "logs are a link": lambda run: (
        (run / "log").rename(run / "x"), (run / "log").symlink_to(run / "x")),
    "damaged metrics": lambda run: (run / "log/metrics.jsonl").write_text("[1]\n"),
    "metrics are a folder": lambda run: (
        (run / "log/metrics.jsonl").unlink(), (run / "log/metrics.jsonl").mkdir()),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_has_a_row_with_a_mark(tmp_path: Path, damage: str) -> None:
    run = make_run(tmp_path / "a", [(0, 9.0)])
    DAMAGES[damage](run)
    assert read(run)["problem"]


def test_a_run_that_is_gone_has_a_row_with_a_mark(tmp_path: Path) -> None:
    run = BoardRun(make_run(tmp_path / "a", [(0, 9.0)]), "a")
    run.refresh()
    shutil.rmtree(tmp_path / "a")
    run.refresh()
    assert run.problem
    assert run.row()["best"] is None


def test_what_is_appended_changes_the_row(tmp_path: Path) -> None:
    run = BoardRun(make_run(tmp_path / "a", [(0, 9.0)]), "a")
    run.refresh()
    assert run.row()["best"] == 9
    run.refresh()
    assert not run.is_changed
    add_line(tmp_path / "a", 100, 20.0)
    run.refresh()
    assert run.is_changed
    assert run.row().items() >= {"best": 20.0, "last": 20.0, "env_step": 100}.items()


def test_curves_of_other_metrics_are_read_when_asked_for(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", [(0, 9.0)])
    for step in range(10):
        add_line(folder, step, float(step), "learner/total_loss")
    run = BoardRun(folder, "a")
    run.refresh()
    assert not run.has(["learner/total_loss"])
    found = run.data([TAG, "learner/total_loss", "unknown"]).columns
    assert {tag: len(points) for tag, points in found.items()} == {TAG: 1, "learner/total_loss": 10}
    add_line(folder, 10, 5.0, "learner/total_loss")
    run.refresh()
    assert len(run.data(["learner/total_loss"]).columns["learner/total_loss"]) == 11
    run.drop()
    assert len(run.data(["learner/total_loss"]).columns["learner/total_loss"]) == 11
    assert len(run.data([TAG]).columns[TAG]) == 1


def test_values_that_are_not_finite_are_counted(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", [(0, 9.0)])
    board = BoardRun(run, "a")
    board.refresh()
    assert board.problem == ""
    with (run / "log/metrics.jsonl").open("a") as file:
        file.write('{"step": 1, "train_iter": 1, "time": 1, "x": "NaN", "NaN": 1}\n' * 2)
        file.write('{"step": 2, "train_iter": 1, "time": 1, "x": "-Infinity"}\n')
    board.refresh()
    assert board.problem == "log/metrics.jsonl: 3 values left out, not finite"
