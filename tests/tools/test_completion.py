"""`dicore completion`: scripts whose words come from the registry."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from dicore_tools.commands.completion_line import line_words
from tests.registry.environment import hermetic
from tests.registry.world import MAIN, World
from tests.soak import SOAK


@pytest.fixture
def world(world: World) -> World:
    world.own("dicore-plugins", "dicore-contrib-envs")
    return world


def test_a_dotted_name_imports_no_package(world: World) -> None:
    """Neither as a config nor as a component."""
    package = world.folder / "trap_package"
    package.mkdir()
    for name in ("__init__.py", "pole.py"):
        (package / name).write_text(f"open({str(world.folder / 'sprung')!r}, 'w').close()\n")
    dqn = ["-e", "cartpole", "-p", "dqn"]
    path = [str(world.folder), world.environ().get("PYTHONPATH", "")]
    for line in (["train", "trap_package.pole"], ["train", "-e", "trap_package.pole:Pole"],
                 ["train", *dqn, "policy.type=trap_package.pole:Pole"]):  # fmt: skip
        done = world.dicore("completion", "__names", "option", "--", "policy.le", *line,
                            PYTHONPATH=os.pathsep.join(filter(None, path)))  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert not (world.folder / "sprung").exists(), line


@pytest.mark.parametrize(
    ("what", "prefix", "words"),
    [
        ("policy", "dd", ["ddpg", "ddqn"]),
        ("component", "policy/ra", ["policy/rainbow", "policy/random"]),
        ("kind", "env_w", ["env_wrapper"]),
        ("status", "sh", ["shadowed"]),
        ("dist", "dicore-p", ["dicore-plugins"]),
        ("command", "comp", ["completion"]),
        ("shell", "", ["bash", "fish", "zsh"]),
        ("options/list", "--s", ["--status"]),
        ("options/nowhere", "--", []),
        ("options", "--se", ["--seed"]),
        ("nothing", "", []),
    ],
)
def test_words(world: World, what: str, prefix: str, words: list[str]) -> None:
    done = world.dicore("completion", "__names", what, prefix)
    assert (done.returncode, done.stdout.split()) == (0, words), done.stderr


def test_a_name_that_two_have_is_completed_in_full(world: World) -> None:
    for dist in ("acme-rl", "other-rl"):
        world.add(dist, {"dicore.policy": {"tedq": f"{dist[:4]}:TEDQ"}})
    done = world.dicore("completion", "__names", "policy", "")
    assert {"acme-rl/tedq", "other-rl/tedq"} < set(done.stdout.split())


LINES = {
    "dicore sho": "show",
    "dicore show policy/qr": "policy/qrdqn",
    "dicore train -e pend": "pendulum",
    "dicore train --policy qr": "qrdqn",
    "dicore train --policy=qr": "qrdqn",
    "dicore list coll": "collector",
    "dicore list --st": "--status",
    "dicore completion z": "zsh",
    "dicore train cartpole_qr": "cartpole_qrdqn",
    "dicore train -e cartpole -p dqn policy.le": "policy.learn.",
    "dicore train cartpole_dqn policy.learn.batch_s": "policy.learn.batch_size=",
    "dicore config show cartpole_dqn policy.learn.double=t": "policy.learn.double=true",
    "dicore -e cartpole -p dqn policy.other.replay_buffer=n": "policy.other.replay_buffer=naive",
    "dicore train dia": "diary.txt",
}

if not SOAK:  # of each way of asking one: a word costs a process
    LINES = {line: word for line, word in LINES.items() if line in (
        "dicore sho", "dicore show policy/qr", "dicore train --policy=qr",
        "dicore train -e cartpole -p dqn policy.le",
        "dicore config show cartpole_dqn policy.learn.double=t", "dicore train dia",
    )}  # fmt: skip

# types each line in a shell of its own and waits for what the tabulator makes of it
_ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "fpath=($PWD \\$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w shell "bindkey '^I' complete-word; print -r REA''DY"
zpty -r shell said '*READY*'
while read -r word line; do
    zpty -w -n shell "$line"$'\\t'
    zpty -r shell said "*$word*"
    zpty -w -n shell $'\\x15'
    print -r -- $word
done < lines
zpty -d shell
"""


def run_in(shell: str, script: str, world: World, folder: Path) -> str:
    """Runs a script in a shell that finds this program as `dicore`; returns what it printed."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"no {shell} here")
    program = folder / "bin" / "dicore"
    program.parent.mkdir()
    program.write_text(f"#!{hermetic().python_path}\n{MAIN}\n")
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), os.environ.get("PATH", "")])
    options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [found, *options, "-c", script], env=world.environ(PATH=path, HOME=str(folder)), cwd=folder,
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert not done.stderr, done.stderr
    return done.stdout


def test_bash_completes(world: World, tmp_path: Path) -> None:
    script = world.dicore("completion", "bash").stdout
    for line in LINES:
        words = line.replace("=", " = ").split()
        typed = " ".join(f"'{word}'" for word in words)
        script += f"\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _dicore\n"
        script += 'echo "${COMPREPLY[@]:-nothing}"\n'
    wanted = [word.rpartition("=")[2] or word for word in LINES.values()]
    wanted[-1] = "nothing"  # for which readline puts the names of files
    assert run_in("bash", script, world, tmp_path).split() == wanted


RUNS = {
    "dicore config sc": "schema",
    "dicore hub p": "pull push",
    "dicore config diff --js": "--json",
    "dicore eval r": "runs/",
    "dicore eval runs/": "runs/a_s0",
    "dicore plot runs/a_s0 runs/a": "runs/a_s0",
    "dicore eval runs/a_s0 --load-path b": "best",
    "dicore eval runs/a_s0 --against=runs/": "runs/a_s0",
    "dicore train --resume runs/": "runs/a_s0",
    "dicore enjoy runs/a_s0 --show te": "text",
    "dicore plot runs/a_s0 --band=m": "minmax",
    "dicore new pl": "plugin",
}
"""Subcommands, run folders, checkpoints and choices, by the words before."""


def test_bash_completes_by_the_line(world: World, tmp_path: Path) -> None:
    for name in ("best", "final"):
        (tmp_path / "runs/a_s0/ckpt" / name).mkdir(parents=True)
    (tmp_path / "runs/a_s0/run.json").touch()
    (tmp_path / "runs/.hidden").mkdir()
    script = world.dicore("completion", "bash").stdout
    for line in RUNS:
        words = line.replace("=", " = ").split()
        typed = " ".join(f"'{word}'" for word in words)
        script += f"\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _dicore\n"
        script += 'echo "${COMPREPLY[@]:-nothing}"\n'
    said = run_in("bash", script, world, tmp_path).splitlines()
    assert dict(zip(RUNS, said, strict=True)) == RUNS


def test_fish_completes(world: World, tmp_path: Path) -> None:
    script = world.dicore("completion", "fish").stdout
    script += "".join(f"complete -C '{line}'\n" for line in LINES)
    (tmp_path / "diary.txt").touch()
    said = run_in("fish", script, world, tmp_path).split()
    assert [word.removeprefix("--policy=") for word in said] == list(LINES.values())


def test_zsh_completes(world: World, tmp_path: Path) -> None:
    (tmp_path / "_dicore").write_text(world.dicore("completion", "zsh").stdout)
    lines = "".join(f"{word} {line}\n" for line, word in LINES.items())
    (tmp_path / "lines").write_text(lines)
    (tmp_path / "diary.txt").touch()
    assert run_in("zsh", _ZSH, world, tmp_path).split() == list(LINES.values())


PAIR = ["train", "-e", "cartpole", "-p", "dqn"]


@pytest.mark.parametrize(
    ("line", "prefix", "words"),
    [
        (PAIR, "", ["exp_name=", "seed=", "env.", "policy.", "pipeline."]),
        (PAIR, "env.st", ["env.stop_value="]),
        ([*PAIR, "policy.learn.batch_size=64"], "policy.learn.double=",
         ["policy.learn.double=true", "policy.learn.double=false"]),
        ([*PAIR, "policy.learn.double"], "=", ["true", "false"]),
        ([*PAIR, "policy.learn.double", "="], "f", ["false"]),
        ([*PAIR, "no.such=1"], "policy.nst", ["policy.nstep="]),
        (PAIR, "policy.nstep=", []),
        (PAIR, "policy.nowhere.", []),
        (PAIR, "env.make_kwargs.", []),
        (["train"], "cartpole_dq", ["cartpole_dqfd", "cartpole_dqn"]),
        (["train", "-e", "nowhere", "-p", "dqn"], "policy.", []),
        (["list"], "policy.", []),
        (["nowhere"], "policy.", []),
        (["eval", "nowhere"], "policy.", []),
    ],
)  # fmt: skip
def test_options(world: World, line: list[str], prefix: str, words: list[str]) -> None:
    done = world.dicore("completion", "__names", "option", "--", prefix, *line)
    assert (done.returncode, done.stdout.split()) == (0, words), done.stderr


def test_files_are_not_run_for_it(world: World, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    config = tmp_path / "config.py"
    config.write_text(f"open({str(mark)!r}, 'w')\nmain_config, create_config = {{}}, {{}}\n")
    for line in (
        ["train", str(config)],
        ["train", "--plugin", str(config), "cartpole_dqn"],
        ["train", "-e", "cartpole", "-p", f"{config}:Policy"],
    ):
        done = world.dicore("completion", "__names", "option", "--", "policy.", *line)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert not mark.exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_script_is_sound(world: World, shell: str) -> None:
    text = world.dicore("completion", shell).stdout
    assert "dicore completion __names" in text
    if program := shutil.which(shell):
        done = subprocess.run([program, "-n"], input=text, capture_output=True, text=True)  # noqa: PLW1510 - looked at below
        assert (done.returncode, done.stderr) == (0, "")


def test_runs_are_found_in_a_folder_of_many(tmp_path: Path) -> None:
    for index in range(300):
        (tmp_path / f"run_{index}").mkdir()
    run = click.Argument(["run"], metavar="RUN")
    root = click.Context(click.Group("dicore", {"show": click.Command("show", params=[run])}))
    for index in range(100, 300):
        start = f"{tmp_path}/run_{index}"
        assert f"{start}/" in line_words(start, ["show"], root)
