"""`release/compatibility.py`: what a pair of plugin and dicore comes to, and how it is told."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from tests.installed.wheels import build, write_project
from tests.soak import SOAK

RELEASE = Path(__file__).parents[2] / "release"
RULES = {"dicore.env": {"nothing": "small_rl:Nothing"}}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(RELEASE))
    return importlib.import_module("compatibility")


def plugin(script: Any, folder: Path, requires: str, test: str) -> Any:
    """A package with one test, as the script reads it."""
    modules = {"small_rl.py": "def answer():\n    return 42\n", "tests/test_it.py": test}
    project = write_project(folder, "small-rl", RULES, modules, requires=requires)
    [wheel] = build("hatchling", [project], folder / "wheels")
    found = script.read_plugin(wheel, folder)
    return script.Plugin(**{**vars(found), "tests": project / "tests"})


PASSES = "import small_rl\n\n\ndef test_it():\n    assert small_rl.answer() == 42\n"


def test_a_plugin_is_installed_and_tested_elsewhere(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_DEPS", "1")  # resolving takes seconds, and all is there
    good = plugin(script, tmp_path, "dicore>=0.1,<0.2", PASSES)
    assert (good.name, good.version, good.allows) == ("small-rl", "1.0", SpecifierSet(">=0.1,<0.2"))
    (tmp_path / "one").mkdir()
    (good.tests / "test_other.py").write_text(PASSES.replace("== 42", "== 7"))
    told = script.tried(good, sys.executable, tmp_path / "one")
    assert told == "failed: tests/test_other.py::test_it - assert 42 == 7"
    if SOAK:
        (good.tests / "test_other.py").unlink()
        (tmp_path / "two").mkdir()
        assert script.tried(good, sys.executable, tmp_path / "two") == "ok (1 passed)"


@pytest.mark.parametrize(
    ("code", "printed", "told"),
    [
        (0, "3 passed, 1 skipped in 2.31s\n", "ok (3 passed, 1 skipped)"),
        (0, "3 passed in 100.31s (0:01:40)\n", "ok (3 passed)"),
        (0, "1 component: 3 ok, 1 skipped\n", "ok (1 component: 3 ok, 1 skipped)"),
        (0, "", "failed: no test was run"),
        (5, "no tests ran in 0.01s\n", "failed: no tests ran in 0.01s"),
        (1, "FAILED a.py::b - c\nERROR d.py\n1 failed in 1s\n", "failed: a.py::b - c (and 1 more)"),
        (1, "Traceback\nImportError: no x\n", "failed: ImportError: no x"),
        (-9, "", "failed: it said nothing"),
    ],
)
def test_the_reason_of_a_failure_is_told(script: Any, code: int, printed: str, told: str) -> None:
    assert script.outcome(code, printed, "") == told


def test_versions_that_are_excluded_are_not_tried(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = plugin(script, tmp_path, "dicore>=0.2,<0.3", PASSES)
    (tmp_path / "own").mkdir()
    (tmp_path / "own/dicore-0.1.0-py3-none-any.whl").touch()
    monkeypatch.setattr(script, "_below", lambda *_, **__: (None, "not installed"))
    [row] = script.rows_of([old], tmp_path / "own", "python3.99", "numpy", tmp_path, cuda=False)
    assert (row.dicore, row.outcome) == ("0.1.0", "excluded: it requires dicore<0.3,>=0.2")
    assert not row.failed
    (tmp_path / "own/dicore-0.2.0-py3-none-any.whl").touch()
    with pytest.raises(SystemExit, match="2 wheels of dicore"):
        script.version_of(tmp_path / "own")


def test_ends_of_the_range_that_nobody_gave_are_named(script: Any) -> None:
    released = ["0.1.0", "0.1.1", "0.2.0", "0.3.0"]
    allows = SpecifierSet(">=0.1,<0.3")
    assert script.not_given(allows, ["0.1.1"], released) == ["0.1.0", "0.2.0"]
    assert script.not_given(allows, ["0.1.0", "0.2.0"], released) == []


def test_table_and_json_have_each_pair(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = plugin(script, tmp_path, "dicore>=0.1,<0.2", PASSES)
    (tmp_path / "own").mkdir()
    (tmp_path / "own/dicore-0.1.5-py3-none-any.whl").touch()
    monkeypatch.setattr(script, "_below", lambda *_, **__: (sys.executable, ""))
    monkeypatch.setattr(script, "tried", lambda *_: "failed: a | b")
    given = SimpleNamespace(
        plugin=[small.wheel], dicore=[tmp_path / "own"], python=["python3.11"], numpy=["numpy>=2"],
        released=["0.1.0"], cuda=False, out=tmp_path / "table.md",
    )  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        script.main(given)
    assert ended.value.code == 1
    text = (tmp_path / "table.md").read_text()
    assert "| small-rl 1.0 | 0.1.5 | python3.11 | numpy>=2 | failed: a \\| b |" in text
    assert "small-rl 1.0 allows dicore 0.1.0, which was not given." in text
    facts = json.loads((tmp_path / "table.json").read_text())
    assert [row["outcome"] for row in facts["rows"]] == ["failed: a | b"]
