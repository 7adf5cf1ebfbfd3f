"""Every command with `--json` is run, and what it prints follows its schema to the last member."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")
pytest.importorskip("torch")

import torch
from safetensors.torch import save_file

from dicore.cli import main
from dicore.cli.group import group
from dicore.run.checkpoint_io import read_state
from dicore.run.launch import launch
from dicore_tools.json_output.schema import json_schema, members
from dicore_tools.json_output.table import OUTPUTS, commands, has_json, output_of
from dicore_tools.results.expected import recorded, write_expected
from dicore_tools.results.plan import read_plan
from tests.tools.results.test_check import TABLE, record
from tests.tools.test_certificates import write_keys
from tests.tools.test_status import FACTS, write

SIDE = ["pipeline.logger=[]", "policy.collect.n_sample=64", "policy.learn.batch_size=16",
        "env.n_evaluator_episode=5", "env.env_wrapper=[one_side]", "pipeline.job_steps=64",
        "pipeline.players=[{type: main, freeze_steps: 64}]"]  # fmt: skip
TUNED = ["policy.learn.batch_size=4", "policy.collect.n_sample=8", "env.collector_env_num=1",
         "env.n_evaluator_episode=1", "env.evaluator_env_num=1"]  # fmt: skip


@pytest.fixture(scope="module")
def place(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands read: a run, a signed one, a league, weights, a hub."""
    pytest.importorskip("dicore_agents")
    at = tmp_path_factory.mktemp("outputs")
    shutil.copytree(trained, at / "run")
    shutil.copytree(trained, at / "signed")
    demo = str(at / "demo.npz")
    assert main(["collect", str(at / "run"), "-n", "60", "--log-prob", "-o", demo]) == 0
    launch(mode="league", env="tictactoe", policy="dqn", seed=0, exp_name=str(at / "league"),
           max_env_step=128, overrides=SIDE)  # fmt: skip
    write_keys(at, "mine")
    write(at / "parallel", FACTS)
    (at / "ppo.yml").write_text(ZOO)
    (at / "zoo").mkdir()
    (at / "zoo/ppo.yml").write_text(ZOO + "Pendulum-v1: {n_epochs: -1}\n")
    (at / "broken.yaml").write_text("env: {type: cartpole, stop_valu: 1}\npolicy: {type: dqn}\n")
    gate = at / "gate.toml"
    gate.write_text(TABLE)
    plan = read_plan(gate)
    found = recorded(plan, plan.rows, [record(plan, seed) for seed in range(3)])
    write_expected(gate.with_suffix(".expected.json"), found)
    model = read_state(at / "run/ckpt/final")["learner"]["policy"]["model"]
    save_file({name: torch.as_tensor(each) for name, each in model.items()}, at / "w.safetensors")
    assert main(["hub", "push", str(at / "run"), str(at / "hub"), "--name", "one"]) == 0
    return at


TRAINED = ["cartpole_dqn", *TUNED, "--exp-name", "trained"]
SERVING = ("board", "watch")
"""Commands that do not end by themselves."""
CASES: dict[str, list[list[str]]] = {
    "benchmark": [["gate.toml", "--list"]],
    "collect": [["run", "-n", "4", "-o", "samples"]],
    "check": [["diagnosis_rule/no_target"], ["gymnasium:CartPole-v1"]],
    "config check": [["cartpole_dqn"], ["broken.yaml"]],
    "config diff": [["run", "cartpole_dqn"]],
    "config show": [["cartpole_dqn"], ["run", "--origin"]],
    "diagnose": [["run"]],
    "doctor": [[]],
    "enjoy": [["cartpole", "--steps", "30"], ["run", "no_such_environment"]],
    "eval": [["run", "-n", "2"], ["league/league/main_1", "--against", "league", "-n", "2"],
             ["run", "--offline", "demo.npz", "--updates", "5"]],
    "export": [["run", "-o", "policy.ts"]],
    "hub list": [["hub"]],
    "hub pull": [["hub", "one", "-o", "pulled"]],
    "hub push": [["run", "hub", "--name", "two"]],
    "import-weights": [["w.safetensors", "--run", "run"]],
    "index": [["-o", "site"]],
    "league": [["league"]],
    "list": [[], ["policy"]],
    "migrate": [["ppo.yml", "-e", "CartPole-v1"],
                ["ppo.yml", "-e", "CartPole-v1", "-o", "ppo.yaml"], ["zoo"]],
    "new plugin": [["foo-bar", "--kind", "env"]],
    "plan": [["cartpole_dqn", "--seconds", "0.5", "--no-changes", "-n", "1000"]],
    "plot": [["run", "-o", "run.svg"]],
    "replay": [["run", "--at", "1"]],
    "report": [["run", "league"]],
    "search": [["cartpole"]],
    "selftest": [["-m", "base", "--fault", "raises"]],
    "session module": [["run"]],
    "session new": [["-e", "cartpole", "-p", "dqn", "--exp-name", "made"]],
    "show": [["policy/dqn"], ["preset/cartpole_dqn"], ["kind/buffer"], ["command/list"]],
    "status": [["run"], ["parallel"]],
    "train": [[*TRAINED, "-n", "16"], [*TRAINED, "-n", "16", "-s", "0", "-s", "1"]],
    "tune": [["cartpole_dqn", *TUNED, "--space", "policy.nstep=1|3", "--max-env-step", "16",
              "-n", "1", "-o", "study"]],
    "verify": [["signed", "--sign", "mine.pem"], ["signed", "--certificate", "mine.pub"]],
}  # fmt: skip
"""Words of the commands, in the folder `place`."""
WITHOUT = {
    "catalogue": "writes Markdown; `dicore list --json` and `dicore show NAME --json` say the same",
    "completion": "prints a script for the shell",
    "config schema": "prints JSON itself, the JSON Schema of configs",
    "dist": "`dicore train -m dist --json` trains; a part serves until it is stopped",
    "ditask": "runs a main function of yours, which prints what it wants",
    "mcp": "speaks the JSON of its protocol",
    "schema": "prints JSON itself, the JSON Schema of an output",
}
"""Commands without `--json`, and why; docs/howto/commands.md has the same rows."""
MAY_FAIL = {("config check", 1): 2, ("enjoy", 1): 1, ("migrate", 2): 1}
"""Exit codes other than 0."""

ZOO = """
CartPole-v1: {n_envs: 8, n_timesteps: 100000, n_steps: 32, batch_size: 256, clip_range: 0.1}
"""
"""A file of rl-zoo3."""
LOUD = """
import os
from gymnasium.envs.classic_control import CartPoleEnv

class Loud(CartPoleEnv):
    def step(self, action):
        os.system("echo from a process")
        return super().step(action)
"""

Printed = Callable[..., Iterator[Any]]


@pytest.fixture
def printed(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Printed:
    """Runs a command in `place` and yields what it printed, line by line if those are objects."""
    monkeypatch.chdir(place)

    def run(*words: str, code: int = 0) -> Iterator[Any]:
        capfd.readouterr()
        assert main([*words]) == code, capfd.readouterr().err
        text = capfd.readouterr().out
        try:
            yield json.loads(text)
        except json.JSONDecodeError:
            yield from map(json.loads, text.splitlines())

    return run


def known() -> dict[str, click.Command]:
    return {name: each for name, each in commands(group) if has_json(each)}


def test_every_command_with_json_declares_and_is_run() -> None:
    assert {*known()} == {*CASES, *SERVING}, "add a row to CASES, and a type to the table"
    assert {name for name, _ in commands(group)} - {*known()} == {*WITHOUT}, (
        "add --json, or why not"
    )
    assert {*OUTPUTS} <= {*CASES, *SERVING}


def test_the_page_names_the_commands_without_json() -> None:
    page = (Path(__file__).parents[3] / "docs/howto/commands.md").read_text()
    rows = re.findall(r"^\| `dicore ([a-z ]+)` \| (.+) \|$", page, re.MULTILINE)
    assert dict(rows) == WITHOUT


def test_a_server_prints_its_address_at_once(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("starlette")
    monkeypatch.setattr("dicore_tools.board.server.serve", lambda _, at: at.close())
    monkeypatch.setattr("http.server.ThreadingHTTPServer.serve_forever", lambda *_, **__: None)
    for name in SERVING:
        assert main([name, str(place / "run"), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        jsonschema.validate(found, json_schema(OUTPUTS[name], closed=True))
        assert found["address"].startswith("http://127.0.0.1:")


def test_a_training_prints_its_lines_to_standard_error(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also those of processes that it starts."""
    monkeypatch.chdir(place)
    Path("loud.py").write_text(LOUD)
    words = ["-e", "loud.py:Loud", "-p", "dqn", *TUNED, "--exp-name", "loud", "-n", "16"]
    assert main(["train", *words, "--json"]) == 0
    said = capfd.readouterr()
    found = json.loads(said.out)
    assert "training dqn on loud.py:Loud" in said.err
    assert "from a process" in said.err
    assert (found["run"], found["ending"], found["env_step"]) == ("loud", "budget", 16)
    assert Path(found["checkpoint"]).is_dir()
    assert main(["train", "-e", "cartpole", "-p", "none", "--json"]) == 2
    assert main(["train", "cartpole_dqn", "--dry-run", "--json"]) == 2
    assert capfd.readouterr().out == "", "an error is no JSON"


def test_seeds_that_fail_have_a_row(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    Path("broken.py").write_text(LOUD.replace("return super", "raise ValueError; return super"))
    words = ["-e", "broken.py:Loud", "-p", "dqn", *TUNED, "-s", "3", "-s", "4", "-n", "16"]
    assert main(["train", *words, "--json"]) == 1
    rows = json.loads(capfd.readouterr().out)
    assert [(each["seed"], each["status"], each["run"]) for each in rows] == [
        (3, "failed", None), (4, "failed", None),
    ]  # fmt: skip
    assert all("ValueError" in each["error"] for each in rows)


@pytest.mark.parametrize(
    ("name", "number"), [(name, n) for name, rows in CASES.items() for n in range(len(rows))]
)
def test_what_is_printed_follows_the_schema(name: str, number: int, printed: Printed) -> None:
    command = known()[name]
    schema = json_schema(output_of(name, command), closed=True)
    words = [*name.split(), *CASES[name][number], "--json"]
    found = [*printed(*words, code=MAY_FAIL.get((name, number), 0))]
    assert found
    for each in found:
        jsonschema.validate(each, schema, cls=jsonschema.Draft202012Validator)
        assert each not in ({}, [])


def test_the_measures_of_a_check_follow_the_schema(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without trainings: the findings of recorded runs."""
    from dicore_tools.commands import benchmark
    from dicore_tools.results.expected import Finding

    findings = [Finding("a", "last", 1.0, 0.0, 2.0), Finding("a", "curve", float("nan"), 0.0, 2.0)]
    monkeypatch.setattr("dicore_tools.results.check.Gate.missing", lambda *_, **__: [])
    monkeypatch.setattr("dicore_tools.results.check.Gate.train", lambda *_, **__: [])
    monkeypatch.setattr("dicore_tools.results.check.Gate.findings", lambda _: findings)
    assert main(["benchmark", str(place / "gate.toml"), "--check", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    schema = json_schema(OUTPUTS["benchmark"], closed=True)
    jsonschema.validate(found, schema)
    assert [each["outside"] for each in found] == [False, True]
    assert benchmark.command.name == "benchmark"


def test_the_schema_is_printed_by_the_command_and_by_the_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["schema", "config", "diff"]) == 0
    one = capsys.readouterr().out
    assert main(["config", "diff", "a", "b", "--json", "--schema"]) == 0
    assert capsys.readouterr().out == one
    assert json.loads(one)["title"] == "dicore config diff --json"
    assert main(["schema"]) == 0
    assert "dicore hub list" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["completion"], "dicore completion has no --json"),
        (["config"], "dicore config is a group"),
        (["nothing"], "nothing"),
    ],
)
def test_a_command_without_an_output_is_an_error(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", *words]) != 0
    assert error in capsys.readouterr().err


def test_an_output_that_is_not_declared_is_an_error() -> None:
    command = click.Command("x", params=[click.Option(["--json"], is_flag=True)], callback=print)
    with pytest.raises(Exception, match="does not declare"):
        output_of("x", command)


@pytest.mark.parametrize("name", [*CASES])
def test_every_member_is_described(name: str) -> None:
    found = [*members(output_of(name, known()[name]))]
    assert [path for path, _, text in found if not text] == []
    assert found
