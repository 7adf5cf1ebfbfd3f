"""The table is complete at any time, and what pandas reads."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from dicore.errors import UsageError
from dicore.interfaces.logger import LogTarget
from dicore_plugins.loggers import CsvLogger


def table(place: Path) -> list[dict[str, str]]:
    with (place / "progress.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_per_step_and_a_column_per_metric(tmp_path: Path) -> None:
    logger = CsvLogger()
    logger.open(LogTarget(tmp_path / "log"))
    logger.log_scalars({"a/x": 0.1}, env_step=8, train_iter=1)
    logger.log_scalars({'strange, "name"': math.inf}, env_step=8, train_iter=1)
    logger.log_scalars({"a/x": math.nan, "time": 3.0}, env_step=16, train_iter=2)
    logger.flush()
    first, second = table(tmp_path / "log")
    assert (first["env_step"], first["train_iter"]) == ("8", "1")
    assert (first["a/x"], float(first['strange, "name"'])) == ("0.1", math.inf)
    assert (first["time (logged)"], second["time (logged)"]) == ("", "3.0")
    assert math.isnan(float(second["a/x"]))
    logger.log_scalars({"a/x": 0.5}, env_step=24, train_iter=3)
    logger.close()
    logger.close()
    assert [row["a/x"] for row in table(tmp_path / "log")] == ["0.1", "nan", "0.5"]


@pytest.mark.parametrize(("resumed_at", "kept"), [((16, 2), 2), ((-1, -1), 0), (None, 0)])
def test_a_resumed_run_keeps_the_rows_of_its_checkpoint(
    tmp_path: Path, resumed_at: tuple[int, int] | None, kept: int
) -> None:
    first = CsvLogger()
    first.open(LogTarget(tmp_path))
    for step in (8, 16, 24):
        first.log_scalars({"a": step}, env_step=step, train_iter=step // 8)
    first.close()
    with (tmp_path / "progress.csv").open("a") as file:
        file.write("32,4,")  # a row that a crash cut off
    second = CsvLogger()
    second.open(LogTarget(tmp_path, resumed_at=resumed_at))
    second.log_scalars({"b": 1.0}, env_step=20, train_iter=2)
    second.close()
    rows = table(tmp_path)
    assert [row["env_step"] for row in rows] == [*["8", "16"][:kept], "20"]
    assert rows[-1]["b"] == "1.0"


def test_rows_wait_while_the_file_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = CsvLogger()
    logger.open(LogTarget(tmp_path / "log"))
    (tmp_path / "log").write_text("in the way")
    for step in (1, 2, 3):
        logger.log_scalars({"a": step}, env_step=step, train_iter=step)
    assert len(caplog.records) == 1
    (tmp_path / "log").unlink()
    logger.close()
    assert [row["a"] for row in table(tmp_path / "log")] == ["1", "2", "3"]


@pytest.mark.parametrize("name", ["../run.json", "/etc/hosts", "a/b.csv", "..", ""])
def test_the_table_is_in_the_log_folder(name: str) -> None:
    with pytest.raises(UsageError, match="without a folder"):
        CsvLogger(name=name)
