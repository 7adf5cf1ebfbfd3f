"""The benchmarks of env managers run, and tell what they found."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import env_manager_curves as curves
from benchmarks import faults


def test_rates_become_a_table_and_a_picture(monkeypatch: Any) -> None:
    chosen = ("dicore base", "bare loop", "Gymnasium Sync")
    monkeypatch.setattr(curves, "CONTENDERS", {name: curves.CONTENDERS[name] for name in chosen})
    found = [
        {"env": env, "envs": count, "contender": name, "env_steps_per_s": rate}
        for env, count in (("cheap", 1), ("cheap", 8), ("images", 1))
        for name, rate in curves.rates(env, count, quick=True).items()
    ]
    assert len(found) == 9
    assert all(each["env_steps_per_s"] > 0 for each in found)
    table = curves.tables(found)
    assert "| | N = 1 | N = 8 |" in table
    assert table.count("| dicore base |") == 2
    assert curves.picture(found, "cheap").count("<polyline") == 3


@pytest.mark.parametrize(
    ("contender", "fault", "text"),
    [
        ("Gymnasium Sync", "nan_obs", "accepted in step 3: [nan, 0.0, 0.0]"),
        ("dicore base", "short_obs", "abnormal step, then it goes on: env 1: observation is"),
    ],
)
def test_what_a_fault_does_is_told(contender: str, fault: str, text: str) -> None:
    said = faults.case(contender, fault)
    assert text in faults.text_of(said)
    assert not said["left"]


def test_a_case_that_does_not_end_is_ended(monkeypatch: Any) -> None:
    monkeypatch.setattr(faults, "LIMIT_S", 6.0)
    said = faults.case("Gymnasium Sync", "hangs")
    assert faults.text_of(said) == "**step hangs**"
