"""What the page draws is what the runs logged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.errors import UsageError
from dicore.run.folder import RunFolder
from dicore_tools.board.overlay import View, overlay
from dicore_tools.reports.run_data import read_run
from tests.tools.reports.test_curves import make_run


def drawn(runs: Path, view: View) -> Any:
    found = [read_run(RunFolder(path)) for path in sorted(runs.iterdir())]
    return overlay(found, {run.folder.path: run.folder.path.name for run in found}, view)


def test_seeds_of_a_config_are_one_group_with_mean_and_band(runs: Path) -> None:
    one, other = drawn(runs, View())["groups"]
    assert [line["name"] for line in one["lines"]] == ["a_s0", "a_s1"]
    assert one["lines"][1]["x"] == [0, 100, 300]
    at = one["mean"]["x"].index(0.0)
    assert one["mean"]["y"][at] == 10.0
    assert one["mean"]["high"][at] - one["mean"]["low"][at] == pytest.approx(
        2 * np.sqrt(2), abs=0.01
    )
    assert (other["label"], other["mean"]) == ("nstep = 3", None)


def test_groups_by_run_and_by_option(runs: Path) -> None:
    assert [each["label"] for each in drawn(runs, View(by="run"))["groups"]] == [
        "a_s0", "a_s1", "b_s0",
    ]  # fmt: skip
    (one,) = drawn(runs, View(by="policy.type"))["groups"]
    assert len(one["lines"]) == 3
    with pytest.raises(UsageError, match="no run has an option"):
        drawn(runs, View(by="nothing"))


def test_other_axes_smoothing_and_bands(runs: Path) -> None:
    view = View(axis="wall", window=2, band="none", by="run")
    line = drawn(runs, view)["groups"][0]["lines"][0]
    assert (line["x"], line["y"]) == ([0, 1, 2], [9, 104.5, 340])
    low = drawn(runs, View(band="minmax"))["groups"][0]["mean"]["low"]
    assert min(low) == 9


def test_runs_without_the_metric_are_counted(runs: Path) -> None:
    found = drawn(runs, View(metric="loss"))
    assert (found["groups"], found["without"]) == ([], 3)


def test_a_stop_value_that_would_flatten_the_curves_is_left_out(tmp_path: Path) -> None:
    for value, shown in ((195.0, 195.0), (1e9, None)):
        env = {"type": "cartpole", "stop_value": value}
        make_run(tmp_path / str(value) / "a", [(0, 9.0), (9, 150.0)], env=env)
        assert drawn(tmp_path / str(value), View())["goal"] == shown


def test_many_points_are_thinned_but_keep_their_extremes(tmp_path: Path) -> None:
    points = [(step, 1000.0 if step == 777 else float(step % 7)) for step in range(5000)]
    make_run(tmp_path / "runs/a", points)
    (line,) = drawn(tmp_path / "runs", View())["groups"][0]["lines"]
    assert len(line["x"]) <= 600
    assert 777 in line["x"]


@pytest.mark.parametrize("value", [0.0, 1e-12, 1e149, -3.0])
def test_numbers_of_any_size_are_kept_to_six_digits(tmp_path: Path, value: float) -> None:
    make_run(tmp_path / "runs/a", [(0, value)])
    (line,) = drawn(tmp_path / "runs", View())["groups"][0]["lines"]
    assert line["y"] == [pytest.approx(value, rel=1e-5)]


def test_small_values_beside_a_large_one_are_kept(tmp_path: Path) -> None:
    make_run(tmp_path / "runs/a", [(0, 1e6), (1, 0.4), (2, 0.1234567)])
    (line,) = drawn(tmp_path / "runs", View())["groups"][0]["lines"]
    assert line["y"] == [1e6, 0.4, 0.123457]
