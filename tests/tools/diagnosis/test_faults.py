"""A sample of `benchmarks.diagnose_faults`: short trainings with a planted fault, and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.diagnose_faults import FAULTS, HEALTHY, Case, page, run_case


def short(case: Case, steps: int) -> Case:
    return case._replace(base=(case.base[0], steps))


@pytest.mark.parametrize(
    ("name", "steps"),
    [("rewards_clipped_to_zero", 700), ("observations_x10000", 600),
     ("learning_rate_x100_ppo", 1_024), ("entropy_weight_huge", 4_000)],
)  # fmt: skip
def test_a_planted_fault_is_named_first(name: str, steps: int, tmp_path: Path) -> None:
    case = short(FAULTS[name], steps)
    found = run_case(name, case, tmp_path).findings
    assert [each.rule for each in found][:1] == [case.rule]
    assert run_case(name, case, tmp_path).findings == found  # of the run that is there


@pytest.mark.parametrize("name", ["cartpole_ppo", "cartpole_a2c"])
def test_a_preset_is_healthy(name: str, tmp_path: Path) -> None:
    assert run_case(name, short(HEALTHY[name], 1_024), tmp_path).findings == []


def test_the_page_lists_what_was_expected() -> None:
    rows = [("a", "no_target", "no_target, dead_units", True, "x"), ("b", "silent", "y", False, "")]
    text = page(rows, "1 of 1")
    assert "| a | no_target | no_target, dead_units | x | yes |" in text
    assert text.rstrip().endswith("| b | silent | y |  | no |")
