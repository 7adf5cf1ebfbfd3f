"""Settings of presets do not change while their versions do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dicore_tools")

from dicore.run.launch import launch
from dicore_registry import default
from dicore_tools.preset_versions import Version, differences, preset_of, shown, versions
from release.presets import DIST, main, recorded

ONE, TWO = Version(1, "a"), Version(1, "b")


def test_no_preset_has_changed_without_a_new_version() -> None:
    """If results change, keep the old settings as NAME_v1 and declare NAME_v2.

    Then, or for a new preset: python -m release.presets --record
    """
    assert [*differences(recorded(), versions(default(), DIST))] == []


@pytest.mark.parametrize(
    ("found", "problems"),
    [
        ({"x": ONE}, []),
        ({"x": TWO}, ["x"]),
        ({}, ["x"]),
        ({"x": ONE, "y": ONE}, ["y"]),
        ({"x_v1": ONE, "x_v2": Version(2, "b")}, ["x_v2"]),
        ({"x_v1": TWO, "x_v2": Version(2, "b")}, ["x", "x_v1", "x_v2"]),
    ],
)
def test_what_is_found(found: dict[str, Version], problems: list[str]) -> None:
    assert sorted(name for name, _ in differences({"x": ONE}, found)) == problems


def test_a_changed_setting_is_named_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "versions.json"
    assert main([], file) == 1
    assert main(["--record"], file) == 0
    from dicore_contrib_envs import presets

    learn: Any = presets.CARTPOLE_DQN["policy"]["learn"]
    monkeypatch.setitem(learn, "batch_size", 129)
    capsys.readouterr()
    assert main(["--record"], file) == 1, "recording does not hide it"
    said = capsys.readouterr().out
    wanted = (
        "cartpole_dqn: its settings changed: keep the old ones as cartpole_dqn_v1, and declare the"
        " new ones as cartpole_dqn_v2\n"
    )
    assert wanted in said
    changed = [line.partition(":")[0] for line in said.splitlines()]
    assert "acrobot_ppo" not in changed, "others share settings with it, this one does not"
    assert main(["--same", *changed], file) == 0
    assert main([], file) == 0


def test_a_name_without_a_number_is_the_first_version() -> None:
    assert shown("cartpole_dqn") == "cartpole_dqn v1"
    assert shown("cartpole_dqn_v3") == "cartpole_dqn v3"
    assert shown("") == ""
    assert (
        preset_of({"a": "class X", "b": "preset cartpole_dqn", "c": "mine.yaml:3"})
        == "cartpole_dqn"
    )


def test_a_run_records_its_preset_and_keeps_it_when_it_is_resumed(tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    given: Any = {"overrides": ["pipeline.logger=[]"]}
    launch(config="cartpole_dqn", exp_name=folder, max_env_step=600, **given)
    launch(resume=folder, max_env_step=700)
    assert json.loads((tmp_path / "run/run.json").read_text())["preset"] == "cartpole_dqn"
