"""REGISTRY R13: a config names who supplied each part, and `locked` refuses any other."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dicore.config import write_config
from dicore.errors import ConfigError, ConfigWarning

Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def run(build: Any, tmp_path: Path) -> Path:
    write_config(build(), tmp_path / "run")
    return tmp_path / "run"


def rewrite(run: Path, change: Change) -> None:
    record = json.loads((run / "config.json").read_text())
    change(record)
    (run / "config.json").write_text(json.dumps(record))


def facts(**new: str) -> Change:
    return lambda record: record["components"]["policy"].update(new)


def test_the_same_parts_are_accepted(build: Any, run: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert build(run, locked=True).cfg == build(run / "config.json", locked=True).cfg


@pytest.mark.parametrize(
    ("change", "one", "other"),
    [
        (facts(version="0.9"), "'toy' of toy-parts 0.9", "'toy' of toy-parts 1.0"),
        (facts(dist="elsewhere"), "'toy' of elsewhere 1.0", "'toy' of toy-parts 1.0"),
        (facts(target="a:B"), "'toy' of toy-parts 1.0, a:B", "toy-parts 1.0, tests.core"),
        (facts(source="sha256:12345678aa"), "source sha256:12345678", "source sha256:"),
    ],
)
def test_another_part_is_refused_by_name_and_warned_of(
    build: Any, run: Path, change: Change, one: str, other: str
) -> None:
    rewrite(run, change)
    with pytest.raises(ConfigError) as caught:
        build(run, locked=True)
    (problem,) = caught.value.problems
    assert problem.startswith("policy: recorded ")
    recorded, _, here = problem.partition(", here ")
    assert one in recorded
    assert other in here
    with pytest.warns(ConfigWarning, match="not the components that the config was made with"):
        build(run)


def test_another_core_and_parts_that_come_and_go(build: Any, run: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        record["dicore"] = "0.0.1"
        record["components"]["gone"] = record["components"].pop("policy.model")

    rewrite(run, change)
    with pytest.raises(ConfigError) as caught:
        build(run, locked=True, overrides=["replay_buffer=heap"])
    told = caught.value.problems
    assert told[0].startswith("dicore: recorded 0.0.1, here ")
    assert told[1] == "gone: recorded 'net' of toy-parts 1.0, here (none)"
    assert told[2] == "policy.model: recorded (none), here 'net' of toy-parts 1.0"
    assert told[3].startswith("policy.other.replay_buffer: recorded 'ring' of toy-parts 1.0, here")


def test_what_is_no_record_cannot_be_locked(build: Any) -> None:
    with pytest.raises(ConfigError, match="the config has no record of its components"):
        build(locked=True)


def test_of_a_runs_folder_no_code_is_run(build: Any, run: Path) -> None:
    """RELIABILITY E06: a `config.py` there is not read, and code by path is refused."""
    marker = run / "marker"
    code = f"open({str(marker)!r}, 'w')\nmain_config = create_config = {{}}\nToy = 1\n"
    for name in ("config.py", "total_config.py", "evil.py"):
        (run / name).write_text(code)
    build(run)
    rewrite(run, lambda record: record["config"]["policy"].update(type=f"{run}/evil.py:Toy"))
    with pytest.raises(ConfigError, match="only names here"):
        build(run)
    rewrite(run, lambda record: record["config"].update(policy="./evil.py:Toy"))
    with pytest.raises(ConfigError, match="only names here"):
        build(run)
    (run / "config.json").unlink()
    with pytest.raises(ConfigError, match="no such config file"):
        build(run)
    assert not marker.exists()
