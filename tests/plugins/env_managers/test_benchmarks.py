"""The benchmarks of env managers run, and tell what they found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import env_faults, faults
from benchmarks import env_manager_curves as curves


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


def _records(*rows: tuple[int, int, int, int]) -> Any:
    return np.array(rows, np.int32)


def _episode(number: int, *, pid: int, steps: int, ends: bool) -> list[tuple[int, int, int, int]]:
    """Returns what an environment writes of an episode."""
    kinds = [env_faults.STEP] * steps
    if ends:
        kinds[-1] = env_faults.END
    return [(pid, number, 0, env_faults.RESET)] + [
        (pid, number, step, kind) for step, kind in enumerate(kinds, 1)
    ]


def _samples(number: int, *, steps: int, ends: bool) -> list[tuple[int, int, int, int]]:
    return [(0, number, step, int(ends and step == steps - 1)) for step in range(steps)]


FILE = _records(
    *_episode(1, pid=10, steps=3, ends=True),
    *_episode(2, pid=10, steps=2, ends=False),  # 10 is killed
    *_episode(3, pid=11, steps=0, ends=False),  # 11 is killed before the first action
    *_episode(4, pid=12, steps=2, ends=True),  # 12 is killed before this answer arrives
    *_episode(5, pid=13, steps=2, ends=True),
    *_episode(6, pid=13, steps=1, ends=False),
)
SAMPLES = [
    *_samples(1, steps=3, ends=True),
    *_samples(2, steps=1, ends=False),
    *_samples(5, steps=2, ends=True),
]
ACTED = [(0, 1), (0, 2), (0, 4), (0, 5), (0, 6)]


def _judged(
    samples: list[Any] = SAMPLES, acted: list[Any] = ACTED, killed: tuple[int, ...] = (10, 11, 12),
    restarts: int = 2,
) -> dict[str, Any]:  # fmt: skip
    said = env_faults.worked({0: FILE}, killed)
    return env_faults.judged(said, _records(*acted), _records(*samples), [restarts])


def test_dropped_episodes_are_those_of_killed_workers() -> None:
    found = _judged()
    assert found["exactly_those"], found["wrong"]
    assert found["episodes_dropped"] == found["episodes_of_killed"] == 2
    assert found["of_these_ended_unanswered"] == found["killed_before_the_first_action"] == 1


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"killed": (11, 12)}, "episode (0, 2) was dropped"),
        ({"samples": SAMPLES[3:]}, "episode (0, 1) has no end"),
        ({"samples": [*SAMPLES, (0, 2, 1, 1)]}, "episode (0, 2) was not dropped"),
        ({"samples": SAMPLES[1:]}, "steps of episode (0, 1): [1, 2]"),
        ({"samples": [*SAMPLES, SAMPLES[0]]}, "steps of episode (0, 1): [0, 0, 1, 2]"),
        ({"samples": [SAMPLES[0], (0, 1, 1, 1), *SAMPLES[3:]]}, "episode (0, 1) has 2 of 3 steps"),
        ({"restarts": 3}, "the manager says that it dropped [3]"),
    ],
)
def test_other_episodes_are_named(changed: dict[str, Any], text: str) -> None:
    found = _judged(**changed)
    assert not found["exactly_those"]
    assert text in found["wrong"]
