"""What is public stays, or goes as it was promised."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dicore_tools.levels import LEVELS, level, patterns, reason
from release.surface import Removal, broken, recorded, removals, surface, works

ROOT = Path(__file__).parents[2]
LATE = {name: Removal("0.2", "0.4", "b") for name in ("m:f", "m:f(a)", "m:C.run", "dicore x --y")}


def test_nothing_of_the_recorded_surface_is_broken() -> None:
    assert broken(recorded(), surface(), removals()) == []


def calls(**calls: list[str]) -> dict[str, Any]:
    return {"level": "stable", "calls": {name.replace("_", "."): of for name, of in calls.items()}}


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ({"m:f": calls()}, {}, ["m:f"]),
        ({"m:f": {"calls": {"": ["a", "b="]}}}, {"m:f": {"calls": {"": ["b="]}}}, ["m:f(a)"]),
        ({"m:f": {"calls": {"": ["a"]}}}, {"m:f": {"calls": {"": ["**"]}}}, []),
        ({"m:f": {"calls": {"": ["a"]}}}, {"m:f": {"calls": {"": ["a="]}}}, []),
        (
            {"m:f": {"calls": {"": ["a"]}}},
            {"m:f": {"calls": {"": ["a", "b", "c="]}}},
            ["m:f(b), which it did not need"],
        ),
        ({"m:C": calls(_run=["x"])}, {"m:C": calls()}, ["m:C.run"]),
        ({"dicore x": {"options": ["--y"]}}, {"dicore x": {"options": []}}, ["dicore x --y"]),
        ({"error E": {"exit_code": 2}}, {"error E": {"exit_code": 3}}, ["error E exit_code=2"]),
        ({"p/a": {"options": ["p.x"]}}, {"p/a": {}}, ["p/a p.x"]),
    ],
)
def test_what_is_lost_is_named(old: Any, new: Any, lost: list[str]) -> None:
    old = {name: {"level": "stable", **facts} for name, facts in old.items()}
    told = broken(old, new, {}, lambda _: False)
    assert [line.partition(": stable, gone without")[0] for line in told] == lost


@pytest.mark.parametrize(
    ("promise", "row", "told"),
    [
        ("stable", Removal("0.2", "0.4", "g"), ""),
        ("stable", Removal("0.9", "1.0", "g"), ""),
        ("stable", Removal("0.2", "0.3", "g"), "deprecated in 0.2, gone in 0.3; wait 2 minor"),
        ("stable", Removal("", "0.4", "g"), "never deprecated"),
        ("provisional", Removal("", "0.2", "g"), ""),
        ("provisional", None, "without a row"),
        ("experimental", None, ""),
    ],
)
def test_what_may_go_depends_on_its_level(promise: str, row: Removal | None, told: str) -> None:
    rows = {} if row is None else {"m:f": row}
    lines = broken({"m:f": {"level": promise}}, {}, rows, lambda _: False)
    assert (told in "".join(lines)) if told else lines == []


def test_what_is_found_with_a_warning_works() -> None:
    assert works("dicore_plugins.functional:default_collate")  # moved to dicore-compat
    assert not works("dicore_plugins.functional:never_there")
    assert not works("dicore_never:there")
    assert not works("policy/never_there")
    assert broken({"m:f": {"level": "stable"}}, {}, {}, lambda _: True) == []


def test_each_pattern_of_a_level_means_something() -> None:
    levels = {name: facts["level"] for name, facts in recorded().items()}
    assert set(levels.values()) == {*LEVELS}
    for name, rows in patterns().items():
        for pattern, why in rows.items():
            kept = re.compile(re.escape(pattern).replace(r"\*", ".*"))
            assert {name} <= {levels[each] for each in levels if kept.fullmatch(each)}, pattern
            assert why
    assert (level("policy/dqn"), reason("policy/dqn")) == ("stable", "")


def test_the_page_of_levels_names_what_is_not_stable() -> None:
    page = (ROOT / "docs/concepts/stability.md").read_text(encoding="utf-8")
    for rows in patterns().values():
        assert [pattern for pattern in rows if f"`{pattern}`" not in page] == []
