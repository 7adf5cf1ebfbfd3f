"""What is appended to a metrics file is read once, whatever its writer does meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dicore.errors import UsageError
from dicore_tools.reports.columns import MetricsTail, MetricsWarning, joined, read_columns


def line(step: int, **values: object) -> str:
    return json.dumps({"step": step, "train_iter": step, "time": step / 10, **values}) + "\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def append(file: Path, text: str) -> None:
    with file.open("a") as opened:
        opened.write(text)


def values(tail: MetricsTail, tag: str = "a") -> list[float] | None:
    found = tail.read([tag])
    if found is None:
        return None
    return found.columns[tag][:, 3].tolist() if tag in found.columns else []


def test_each_line_is_read_once(file: Path) -> None:
    tail = MetricsTail(file)
    assert values(tail) is None
    append(file, line(1, a=1.0) + line(2, a=2.0))
    assert values(tail) == [1, 2]
    assert values(tail) is None
    append(file, line(3, a=3.0))
    assert values(tail) == [3]


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        ('{"step": 2, "time": 2, "a": 2.0}', "it has no train_iter"),
        ('{"step": 2, "a": 2.0}', "it has no train_iter and no time"),
        (line(2, a="two")[:-1], "a value is not a number"),
        (line(2, a=[2])[:-1], "a value is not a number"),
        ("[1, 2]", "not a JSON object"),
        ("no json", "not a JSON object"),
    ],
)
def test_a_damaged_line_is_left_out_and_told(file: Path, damaged: str, why: str) -> None:
    append(file, line(1, a=1.0) + damaged + "\n" + line(3, a=3.0))
    told = rf"line 2 left out, not one of metrics: {why}$"
    with pytest.warns(MetricsWarning, match=told):
        assert read_columns(file)["a"][:, 3].tolist() == [1, 3]
    append(file, damaged + "\n")
    with pytest.warns(MetricsWarning, match=rf"line 2 left out, .*{why}, and 1 other$"):
        read_columns(file)
    file.write_text(damaged + "\n")
    with pytest.raises(UsageError, match=f"line 1 is not one of metrics: {why}"):
        read_columns(file)


def test_a_line_that_is_being_written_is_left_for_later(file: Path) -> None:
    tail = MetricsTail(file)
    whole = line(2, a=2.0)
    append(file, line(1, a=1.0) + whole[:9])
    assert values(tail) == [1]
    append(file, whole[9:])
    assert values(tail) == [2]


@pytest.mark.parametrize("rest", ["", line(3, a=30.0) + line(4, a=40.0) + line(5, a=50.0)])
def test_a_file_that_was_cut_is_read_again(file: Path, rest: str) -> None:
    """A resumed run cuts what was written after its checkpoint, and may be further than before."""
    tail = MetricsTail(file)
    kept = line(1, a=1.0) + line(2, a=2.0)
    append(file, kept + line(3, a=3.0))
    tail.read(["a"])
    with file.open("r+") as opened:
        opened.truncate(len(kept))
    append(file, rest)
    found = tail.read(["a"])
    assert found is not None
    assert found.anew
    assert found.columns["a"][:, 3].tolist() == [1, 2, *([30, 40, 50] if rest else [])]


def test_a_file_that_is_gone_is_told_once(file: Path) -> None:
    tail = MetricsTail(file)
    append(file, line(1, a=1.0))
    tail.read(["a"])
    file.unlink()
    found = tail.read(["a"])
    assert found is not None
    assert (found.anew, found.columns) == (True, {})
    assert tail.read(["a"]) is None


@pytest.mark.parametrize("bad", ["[1]", "{", '{"a": 1}', "[" * 100_000, '{"step": "x"}', ""])
def test_damaged_lines_are_counted_and_left_out(file: Path, bad: str) -> None:
    append(file, line(1, a=1.0) + bad + "\n" + line(2, a=2.0))
    found = MetricsTail(file).read(["a"])
    assert found is not None
    assert (found.columns["a"][:, 3].tolist(), found.damaged) == ([1, 2], 1)


def test_of_metrics_that_are_not_asked_for_one_line_of_each_form_is_read(file: Path) -> None:
    append(file, "".join(line(step, a=float(step)) for step in range(50)))
    append(file, line(50, b=7.5) + "".join(line(step, a=float(step)) for step in range(51, 90)))
    found = MetricsTail(file).read(["b"])
    assert found is not None
    assert found.columns["b"][:, 3].tolist() == [7.5]
    assert found.columns["a"][:, 0].tolist() == [0, 89]  # the first of its form, and the last


def test_pieces_are_those_of_the_whole_file(file: Path) -> None:
    """Env steps may go back: a stable order by them, as of the file read at once."""
    tail, pieces = MetricsTail(file), []
    for number in range(6):
        append(file, line(10 - 3 * (number % 3), a=float(number)))
        found = tail.read(["a"])
        assert found is not None
        pieces.append(found.columns["a"])
    np.testing.assert_array_equal(joined(pieces), read_columns(file)["a"])


def test_a_link_is_refused(file: Path, tmp_path: Path) -> None:
    append(tmp_path / "other", line(1, a=1.0))
    file.symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="link"):
        MetricsTail(file).read(["a"])


def test_metrics_whose_names_differ_in_digits_are_all_known(file: Path) -> None:
    tail = MetricsTail(file)
    append(file, "".join(line(step, **{f"agent_{step % 3}": 1.0}) for step in range(6)))
    found = tail.read([])
    assert found is not None
    assert {"agent_0", "agent_1", "agent_2"} <= {*found.columns}


def test_values_that_are_not_finite_are_counted(file: Path) -> None:
    append(file, line(0, a=1.0, b="NaN") + line(1, a="Infinity", b="NaN") + line(2, a=1e200))
    found = read_columns(file)
    assert {tag: points[:, 3].tolist() for tag, points in found.items()} == {"a": [1.0]}
    assert found.not_finite == {"a": 2, "b": 2}
