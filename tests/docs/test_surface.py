"""What is public stays, or goes as it was promised."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dicore_tools.levels import LEVELS, level, patterns, reason
from release.surface import Removal, broken, recorded, removals, surface, works

ROOT = Path(__file__).parents[2]


def test_nothing_of_the_recorded_surface_is_broken() -> None:
    assert broken(recorded(), surface(), removals()) == []


def calls(**calls: list[str]) -> dict[str, Any]:
    return {"level": "stable", "calls": {name.replace("_", "."): of for name, of in calls.items()}}


def f(*parameters: str) -> dict[str, Any]:
    return {"m:f": {"calls": {"": [*parameters]}}}


LOST = [
    ({"m:f": calls()}, {}, ["m:f"]),
    (f("a", "b="), f("b="), ["m:f(a)", "m:f(b)"]),
    (f("a", "b="), f("a"), ["m:f(b)"]),
    (f("a", "b"), f("b", "a"), ["m:f(a)", "m:f(b)"]),
    (f("a", "b="), f("a", ",", "b="), ["m:f(b)"]),
    (f("a", ",", "b="), f("a", "b="), []),
    (f("a"), f("**"), ["m:f(a)"]),
    (f(",", "a="), f("**"), []),
    (f("a"), f("a="), []),
    (f("a="), f("a"), ["m:f(a), which it did not need"]),
    (f("a"), f("a", "b", "c="), ["m:f(b), which it did not need"]),
    (f("a"), f("a", ",", "b", "c="), ["m:f(b), which it did not need"]),
    ({"m:C": calls(_run=["x"])}, {"m:C": calls()}, ["m:C.run"]),
    ({"m:C": {"attributes": ["a", "b"]}}, {"m:C": {"attributes": ["b"]}}, ["m:C a"]),
    ({"dicore x": {"options": ["--y"]}}, {"dicore x": {"options": []}}, ["dicore x --y"]),
    ({"dicore x": {"options": ["--y=a"]}}, {"dicore x": {"options": ["--y"]}}, ["dicore x --y=a"]),
    (
        {"dicore x": {"needs": []}},
        {"dicore x": {"needs": ["--y"]}},
        ["dicore x --y, which it did not need"],
    ),
    ({"error E": {"exit_code": 2}}, {"error E": {"exit_code": 3}}, ["error E exit_code=2"]),
    ({"p/a": {"options": ["p.x"]}}, {"p/a": {}}, ["p/a p.x"]),
    ({"m:f": {}}, {"m:f": {"level": "experimental"}}, ["m:f level=stable"]),
]


@pytest.mark.parametrize(("old", "new", "lost"), LOST)
def test_what_is_lost_is_named(old: Any, new: Any, lost: list[str]) -> None:
    old = {name: {"level": "stable", **facts} for name, facts in old.items()}
    told = broken(old, new, {}, lambda _: None)
    assert [line.partition(": stable, gone without")[0] for line in told] == lost


@pytest.mark.parametrize(
    ("promise", "row", "told"),
    [
        ("stable", Removal("0.2", "0.4", "g"), ""),
        ("stable", Removal("0.3", "1.0", "g"), ""),
        ("stable", Removal("0.2", "0.3", "g"), "deprecated in 0.2, gone in 0.3; wait 2 minor"),
        ("stable", Removal("", "0.4", "g"), "never deprecated"),
        ("stable", Removal("0.0", "0.4", "g"), "deprecated in 0.0, removed in 0.4"),
        ("stable", Removal("0.5", "0.4", "g"), "deprecated in 0.5, removed in 0.4"),
        ("stable", Removal("0.2", "99.0", "g"), "later than the next release"),
        ("provisional", Removal("", "0.2", "g"), ""),
        ("provisional", None, "without a row"),
        ("experimental", None, ""),
    ],
)
def test_what_may_go_depends_on_its_level(
    promise: str, row: Removal | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("release.surface.__version__", "1.0.0")
    rows = {} if row is None else {"m:f": row}
    lines = broken({"m:f": {"level": promise}}, {}, rows, lambda _: None)
    assert (told in "".join(lines)) if told else lines == []


def test_what_is_found_with_a_warning_works() -> None:
    assert works("dicore_plugins.functional:default_collate")  # moved to dicore-compat
    assert not works("dicore_plugins.functional:never_there")
    assert not works("dicore_never:there")
    assert not works("policy/never_there")
    assert works("preset/swimmer_ppo") is not None, "it stands for the newest version"
    before = {"m:f": {"level": "stable", "calls": {"": ["a"]}}}
    assert broken(before, {}, {}, lambda _: {"calls": {"": ["a"]}}) == []
    told = broken(before, {}, {}, lambda _: {"calls": {"": ["b"]}})
    assert [line.partition(":f")[2][:3] for line in told] == ["(a)", "(b)"]


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
