"""`dicore completion`: scripts whose words come from the registry."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.registry.environment import hermetic
from tests.registry.world import MAIN, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "site", tmp_path / "house")
    world.own()
    return world


@pytest.mark.parametrize(
    ("what", "prefix", "words"),
    [
        ("policy", "d", ["dqn"]),
        ("component", "policy/", ["policy/dqn", "policy/random"]),
        ("kind", "env_w", ["env_wrapper"]),
        ("status", "sh", ["shadowed"]),
        ("dist", "dicore-p", ["dicore-plugins"]),
        ("command", "comp", ["completion"]),
        ("shell", "", ["bash", "fish", "zsh"]),
        ("options/list", "--s", ["--status"]),
        ("options/nowhere", "--", []),
        ("nothing", "", []),
    ],
)
def test_words(world: World, what: str, prefix: str, words: list[str]) -> None:
    done = world.dicore("__names", what, prefix)
    assert (done.returncode, done.stdout.split()) == (0, words), done.stderr


def test_a_name_that_two_have_is_completed_in_full(world: World) -> None:
    for dist in ("acme-rl", "other-rl"):
        world.add(dist, {"dicore.policy": {"sac": f"{dist[:4]}:SAC"}})
    done = world.dicore("__names", "policy", "")
    assert {"acme-rl/sac", "other-rl/sac"} < set(done.stdout.split())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("dicore sho", "show"),
        ("dicore show policy/d", "policy/dqn"),
        ("dicore train -e cartp", "cartpole"),
        ("dicore train --policy d", "dqn"),
        ("dicore list buf", "buffer"),
        ("dicore list --st", "--status"),
        ("dicore completion z", "zsh"),
    ],
)
def test_bash_completes(world: World, tmp_path: Path, line: str, words: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    program = tmp_path / "bin" / "dicore"
    program.parent.mkdir()
    program.write_text(f"#!{hermetic().python_path}\n{MAIN}\n")
    program.chmod(0o755)
    script = world.dicore("completion", "bash").stdout
    typed = " ".join(f"'{word}'" for word in line.split())
    script += f"\nCOMP_WORDS=({typed}); COMP_CWORD={len(line.split()) - 1}\n_dicore\n"
    script += 'echo "${COMPREPLY[@]}"\n'
    path = os.pathsep.join([str(program.parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        [bash, "-c", script], env=world.environ(PATH=path), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout.strip() == words, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_script_is_sound(world: World, shell: str) -> None:
    text = world.dicore("completion", shell).stdout
    assert "dicore __names" in text
    program = shutil.which(shell)
    if program is not None:
        done = subprocess.run(
            [program, "-n"], input=text, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
