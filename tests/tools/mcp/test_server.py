"""`dicore mcp` beside the client of the SDK, over the standard streams of a process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if find_spec("mcp") is None:  # its import is 3 s of CPU, for each process that collects tests
    pytest.skip("mcp is not installed", allow_module_level=True)
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

import anyio
import psutil

from dicore.cli import main
from dicore_tools.mcp.trainings import PYTHON
from tests import warm

if TYPE_CHECKING:
    from mcp import Client

TRAIN: dict[str, Any] = {"config": "cartpole_dqn", "max_env_step": 10_000_000, "name": "one",
                         "overrides": ["env.stop_value=inf", "pipeline.logger=[]"]}  # fmt: skip
Talk = Callable[["Client"], Awaitable[None]]


@pytest.fixture
def root(trained: Path, tmp_path: Path) -> Path:
    """A folder with a run, configs, a project that must not be imported, and a link out of it."""
    root = tmp_path / "root"
    shutil.copytree(trained, root / "runs" / "first")
    (root / "good.yaml").write_text("env: {type: cartpole, stop_value: 1}\npolicy: {type: dqn}\n")
    (root / "trap.py").write_text("open('sprung', 'w').close()\nmain_config = create_config = {}\n")
    (root / "sitecustomize.py").write_text("open('sprung', 'w').close()\n")
    (root / "pyproject.toml").write_text('[tool.dicore]\nplugins = ["./trap.py"]\n')
    shutil.copytree(trained, tmp_path / "outside")
    code = f"{root / 'trap.py'}:Trap"
    (root / "by_path.yaml").write_text(f"env: {{type: '{code}'}}\npolicy: {{type: dqn}}\n")
    (root / "by_import.yaml").write_text(
        f"env: {{type: cartpole, import_names: ['{root / 'trap.py'}']}}\npolicy: {{type: dqn}}\n"
    )
    foreign = shutil.copytree(trained, root / "runs" / "foreign") / "config.json"
    foreign.write_text(foreign.read_text().replace('"type": "cartpole"', f'"type": "{code}"'))
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "runs" / "linked").symlink_to("first")
    return root


def talk(root: Path, *words: str, do: Talk, **env: str) -> None:
    """Starts a server below a root and lets a client talk to it."""
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(
        command=PYTHON[0], args=[*PYTHON[1:], "mcp", "--root", str(root), *words],
        env={**os.environ, warm.NESTED: "1", **env}, cwd=str(root.parent),
    )  # fmt: skip

    async def session() -> None:
        async with Client(server) as client:
            await do(client)

    anyio.run(session)


async def ask(client: Client, tool: str, /, **given: Any) -> Any:
    """Returns the result of a call."""
    from dicore_tools.mcp.server import NOTE

    answer = await client.call_tool(tool, given)
    assert not answer.is_error, answer.content
    assert answer.structured_content["note"] == NOTE
    return answer.structured_content["result"]


async def refused(client: Client, tool: str, /, **given: Any) -> str:
    """Returns the error of a call."""
    answer = await client.call_tool(tool, given)
    assert answer.is_error, answer.structured_content
    return str(answer.content[0].text)


def test_what_is_read(root: Path) -> None:
    """The client checks each result by the schema of its tool."""

    async def do(client: Client) -> None:
        tools = {each.name: each for each in (await client.list_tools()).tools}
        assert [*tools] == ["list", "show", "check", "status", "report", "diagnose"]
        assert all(each.annotations.read_only_hint for each in tools.values())
        found = await ask(client, "list", kind="policy", match="^dqn$")
        assert [each["name"] for each in found] == ["dqn"]
        shown = await ask(client, "show", component="policy/dqn")
        assert "policy.nstep" in [each["path"] for each in shown["options"]]
        (good,) = await ask(client, "check", config="good.yaml", overrides=["policy.nstep=3"])
        assert good["valid"]
        (bad,) = await ask(client, "check", config="cartpole_dqn", overrides=["policy.nstepp=3"])
        assert "nstepp" in bad["problems"][0]
        assert (await ask(client, "status", run="runs/first"))["ended"]
        assert (await ask(client, "status", run="runs/linked"))["ended"], "a link in the root"
        assert len(await ask(client, "report", runs=["."])) == 2, "a link out is not followed"
        (run,) = await ask(client, "report", runs=["runs/first"])
        assert (run["policy"], run["env"]) == ("dqn", "cartpole")
        assert (await ask(client, "diagnose", run="runs/first"))["format"] == 1

    before = sorted(root.rglob("*"))
    talk(root, do=do)
    assert sorted(root.rglob("*")) == before, "nothing is written, nothing executed"


def test_what_is_refused(root: Path) -> None:
    async def do(client: Client) -> None:
        assert "only reads" in await refused(client, "train", **TRAIN)
        assert "no tool" in await refused(client, "shell", command="id")
        for run in ("../outside", "link", str(root.parent / "outside"), "/etc"):
            assert "not below the root" in await refused(client, "status", run=run)
        assert "no such file" in await refused(client, "diagnose", run="runs/none")
        assert "not a config of text" in await refused(client, "check", config="trap.py")
        trap = (await ask(client, "check", env="./trap.py:Trap", policy="dqn"))[0]
        assert not trap["valid"]
        trap = (await ask(client, "check", env="trap:Trap-v0", policy="dqn"))[0]
        assert not trap["valid"]
        await ask(client, "check", config="by_import.yaml")  # its path is not imported
        for name in ("by_path.yaml", "runs/foreign"):
            trap = (await ask(client, "check", config=name))[0]
            assert not trap["valid"], name
        assert "this server runs no code" in trap["hint"]
        for option in ("exp_name=x", "--plugin=trap.py", "a=/etc", "a=../x", "a", "{a: 1}"):
            assert "option" in await refused(
                client, "check", config="good.yaml", overrides=[option]
            )
        assert "component" in await refused(client, "show")
        assert "$.kind" in await refused(client, "list", kind=3)
        assert "--plugin" in await refused(client, "show", component="--plugin=trap.py")

    talk(root, do=do)
    assert not [*root.parent.rglob("sprung")]


def test_no_text_names_a_module_to_import(root: Path) -> None:
    """The path of the process has a module and a package that tell when they are run."""
    trap = (
        f"open({str(root.parent / 'sprung')!r}, 'w').close()\nmain_config = create_config = {{}}\n"
    )
    package = root.parent / "modules" / "trap_package"
    package.mkdir(parents=True)
    for file in (package / "__init__.py", package / "pole.py", package.parent / "trap_module.py"):
        file.write_text(trap)
    (root / "whole.yaml").write_text("env: {type: 'trap_module:A'}\npolicy: {type: dqn}\n")

    async def do(client: Client) -> None:
        for name in ("trap_package.pole", "trap_module", "unittest.__main__"):
            for tool, more in (("check", {}), ("train", {"max_env_step": 1, "name": "no"})):
                answer = await client.call_tool(tool, {"config": name, **more})
                assert answer.is_error or not answer.structured_content["result"][0]["valid"]
        dqn = {"env": "cartpole", "policy": "dqn"}
        for option in ("policy.import_names=[trap_module]", "env={import_names: trap_module}"):
            assert "imports no modules" in await refused(client, "check", **dqn, overrides=[option])
        for given in (
            {**dqn, "env": "trap_module:Trap-v0"},
            {**dqn, "policy": "trap_package.pole:Trap"},
            {**dqn, "overrides": ["policy.model.type=trap_module:Trap"]},
            {"config": "whole.yaml"},
        ):
            (found,) = await ask(client, "check", **given)
            assert not found["valid"], given

    talk(root, "--write", do=do, PYTHONPATH=str(package.parent))
    assert not [*root.parent.rglob("sprung")]


def test_links_and_summaries_lead_to_nothing_outside(root: Path) -> None:
    outside, runs = root.parent / "outside", root / "runs"
    for name, part in (("log", "log"), ("config", "config.json"), ("deep", "log/metrics.jsonl")):
        made = shutil.copytree(outside, runs / name) / part
        shutil.rmtree(made) if made.is_dir() else made.unlink()
        made.symlink_to(outside / part)
    shutil.copytree(outside, runs / "inner")
    shutil.rmtree(runs / "inner" / "ckpt")
    (runs / "inner" / "ckpt").symlink_to("../log", target_is_directory=True)
    away = json.dumps({"runs": [{"folder": str(outside)}, {"folder": 3}, {"folder": "/"}]})
    (root / "summary.json").write_text(away)
    (root / "beside.json").write_text(json.dumps({"runs": [{"folder": "/away/link"}]}))
    (root / "near.json").write_text(json.dumps({"runs": [{"folder": str(runs / "first")}]}))

    async def do(client: Client) -> None:
        for name in ("log", "config", "deep", "inner"):
            run = f"runs/{name}"
            assert "is a link out" in await refused(client, "status", run=run)
            assert "is a link out" in await refused(client, "diagnose", run=run)
            assert "is a link out" in await refused(client, "report", runs=[run])
            assert "is a link out" in await refused(client, "check", config=run)
        for name in ("summary.json", "beside.json"):
            assert "not below the root" in await refused(client, "report", runs=[name])
        assert len(await ask(client, "report", runs=["near.json"])) == 1

    talk(root, do=do)


def test_odd_texts_are_refused(root: Path) -> None:
    async def do(client: Client) -> None:
        for text in ("a\0", "a\n", "\x1b[2J", "\x85"):
            for tool, given in (
                ("status", {"run": text}),
                ("check", {"config": text}),
                ("check", {"config": "good.yaml", "overrides": [f"policy.nstep={text}"]}),
                ("list", {"match": text}),
            ):
                assert "control characters" in await refused(client, tool, **given)
        assert "longer than" in await refused(client, "status", run="a" * 5000)
        assert "too long" in await refused(client, "status", run="a" * 4000)
        (root / "circle").symlink_to("circle")
        assert "not below" in await refused(client, "status", run="circle")

    talk(root, do=do)


def started(root: Path) -> list[psutil.Process]:
    """Returns the processes that train below a root."""
    word = f"--exp-name={root / 'runs' / 'one'}"
    return [
        each for each in psutil.process_iter(["cmdline"]) if word in (each.info["cmdline"] or ())
    ]


async def saves_once(root: Path) -> None:
    """Waits for the first checkpoint: who is stopped before that has nothing to save."""
    with anyio.fail_after(120):
        while not (root / "runs/one/ckpt").is_dir():
            await anyio.sleep(0.05)


def test_a_training_is_started_and_stopped(root: Path) -> None:
    async def do(client: Client) -> None:
        bad = {**TRAIN, "overrides": ["policy.nstepp=3"], "name": "bad"}
        assert "nstepp" in await refused(client, "train", **bad)
        assert "not a name" in await refused(client, "train", **{**TRAIN, "name": "../x"})
        assert "nstepp" in await refused(client, "train", **bad), "the name is free again"
        assert (await ask(client, "train", **TRAIN))["run"] == "runs/one"
        assert "exists" in await refused(client, "train", **TRAIN)
        assert (await ask(client, "status", run="runs/one"))["state"] == "running"
        assert "left alone" in await refused(client, "stop", run="runs/first")
        await saves_once(root)
        assert (await ask(client, "stop", run="runs/one"))["exit_code"] == 143
        assert (await ask(client, "status", run="runs/one"))["ended"]

    talk(root, "--write", do=do)
    assert (root / "runs/one/ckpt/final/manifest.json").is_file()
    assert not (root / "runs/bad").exists()
    assert not [*root.parent.rglob("sprung")]


@pytest.mark.parametrize("how", ["the client leaves", "SIGTERM"])
def test_a_training_ends_with_the_server(root: Path, how: str) -> None:
    async def do(client: Client) -> None:
        await ask(client, "train", **TRAIN)
        assert started(root)
        await saves_once(root)
        if how == "SIGTERM":
            parent = started(root)[0].parent()
            assert parent is not None
            parent.send_signal(signal.SIGTERM)
            while parent.is_running() and parent.status() != psutil.STATUS_ZOMBIE:
                await anyio.sleep(0.05)

    talk(root, "--write", do=do)
    _, alive = psutil.wait_procs(started(root), timeout=60)
    assert not alive
    assert '"status": "running"' not in (root / "runs/one/run.json").read_text()
    assert (root / "runs/one/ckpt/final/manifest.json").is_file(), "it was saved"


def test_a_line_that_is_no_message_is_answered(root: Path) -> None:
    told = subprocess.run(
        [*PYTHON, "mcp", "--root", str(root)], input='{"a":\n\n[1]\n"x"\n', capture_output=True,
        text=True, timeout=60, cwd=root.parent, env={**os.environ, warm.NESTED: "1"}, check=False,
    )  # fmt: skip
    answers = [json.loads(line) for line in told.stdout.splitlines()]
    codes = [(each["jsonrpc"], each["id"], each["error"]["code"]) for each in answers]
    assert codes == [("2.0", None, -32700), ("2.0", None, -32600), ("2.0", None, -32600)]
    assert told.returncode == 0


def test_without_the_package_there_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dicore_tools.commands.mcp.find_spec", lambda _: None)
    assert main(["mcp"]) == 3
    err = capsys.readouterr().err
    assert err == (
        "error: dicore mcp needs the package mcp\n  hint: pip install 'dicore-tools[mcp]'\n"
    )
