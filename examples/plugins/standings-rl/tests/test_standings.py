"""The order of runs, and what is not one."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from standings_rl.command import command
from standings_rl.ranking import Place, runs_in

from dicore.errors import UsageError


def write(folder: Path, best: Any, *, env: str = "cartpole", env_step: int = 100) -> None:
    folder.mkdir(parents=True)
    result = {"best_return": best, "env_step": env_step}
    (folder / "run.json").write_text(json.dumps({"seed": 0, "result": result}))
    config = {"env": {"type": env}, "policy": {"type": "dqn"}}
    (folder / "config.json").write_text(json.dumps({"config": config}))


def listed(*words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(command, [*words, "--json"])
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.output)
    return found


def test_the_best_run_of_each_env_comes_first(tmp_path: Path) -> None:
    write(tmp_path / "a", 20.0)
    write(tmp_path / "b", 500.0, env_step=900)
    write(tmp_path / "deep/c", 500.0)
    write(tmp_path / "d", -1.0, env="acrobot")
    assert [each["run"] for each in listed(str(tmp_path))] == ["d", "deep/c", "b", "a"]
    assert [each["run"] for each in listed(str(tmp_path), "--env", "acrobot")] == ["d"]


def test_what_is_no_finished_run_is_named(tmp_path: Path) -> None:
    write(tmp_path / "good", 1.0)
    write(tmp_path / "unfinished", None)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/run.json").write_bytes(b"\xff" * 9)
    found = list(runs_in(tmp_path))
    assert [each.run for each in found if isinstance(each, Place)] == ["good"]
    assert [str(each).partition(":")[0] for each in found[:1]] == ["broken"]
    done = CliRunner().invoke(command, [str(tmp_path)])
    assert "unfinished: no finished run" in done.output


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, [str(tmp_path / "none")])
    assert isinstance(done.exception, UsageError)
