"""`benchmarks/check_faults.py`: its faults fit the sources, and it reads what a check prints."""

from __future__ import annotations

import compileall
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_agents")
pytest.importorskip("dicore_contrib_envs")

from benchmarks.check_faults import FAULTS, ROOT, Fault, outside, planted
from dicore_tools.results.expected import read_expected
from dicore_tools.results.plan import read_plan


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_can_be_planted(name: str, tmp_path: Path) -> None:
    """Its texts occur once, and what replaces them is Python."""
    planted(FAULTS[name], tmp_path)
    for file in FAULTS[name].edits:
        assert (tmp_path / file).read_bytes() != (ROOT / file).read_bytes()
        assert compileall.compile_file(tmp_path / file, quiet=2)


def test_a_fault_that_does_not_fit_is_told(tmp_path: Path) -> None:
    fault = Fault("x", ("*",), {"dicore/errors.py": [("there is no such line", "")]})
    with pytest.raises(SystemExit, match="occurs 0 times"):
        planted(fault, tmp_path)


def test_each_pattern_of_a_fault_matches_a_row() -> None:
    rows = [row.name for row in read_plan(ROOT / "benchmarks/check.toml").rows]
    for fault in FAULTS.values():
        for pattern in fault.rows:
            assert any(fnmatchcase(row, pattern) for row in rows), pattern


def test_the_recorded_intervals_are_those_of_the_rows() -> None:
    """Else the check would refuse them: record them again after a change of options."""
    plan = read_plan(ROOT / "benchmarks/check.toml")
    expected = read_expected(ROOT / "benchmarks/check.expected.json")
    from dicore_tools.results.expected import options_of

    for row in plan.rows:
        assert expected[row.name].options == options_of(plan, row), row.name


def test_the_table_of_a_check_is_read() -> None:
    printed = (
        "training 2 runs in x\n"
        "ROW           MEASURE                 FOUND   LOW   HIGH\n"
        "cartpole_a2c  curve                    9.35  11.3  567.6\n"
        "cartpole_a2c  learner/value_loss        nan   -13   44.6\n"
        "1 row, 4 measures: 2 of 1 row outside\n"
    )
    assert outside(printed) == {
        "cartpole_a2c": ["curve 9.35 (11.3 to 567.6)", "learner/value_loss nan (-13 to 44.6)"]
    }
    assert outside("2 rows, 8 measures: all within\n") == {}
