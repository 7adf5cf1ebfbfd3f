"""A command whose argument is missing shows an example."""

from __future__ import annotations

import shlex

import click
import pytest

import dicore_registry
from dicore.cli import main
from dicore_tools.commands.examples import CommandWithExamples


def test_the_hint_is_the_first_example(capsys: pytest.CaptureFixture[str]) -> None:
    for words, missing, example in (
        ("replay", "argument 'RUN'", "dicore replay runs/a --at 48213"),
        ("replay runs/a", "option '--at'", "dicore replay runs/a --at 48213"),
        ("hub pull", "argument 'PLACE'", "dicore hub pull https://example.org/hub cartpole-dqn -o"),
        ("plot", "argument 'RUN...'", "dicore plot runs/cartpole_dqn_s*"),
    ):
        assert main(words.split()) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"error: missing {missing}\n  hint: {example}")
        assert said.count("\n") == 2


def commands() -> list[tuple[str, click.Command]]:
    registry = dicore_registry.default()
    found = []
    for entry in registry.entries("command"):
        if entry.dist == "dicore-tools" and entry.status == "ok":
            name, target = entry.name.replace("_", "-"), registry.load(entry)
            inner = target.commands.items() if isinstance(target, click.Group) else ()
            found += [(f"{name} {each}", command) for each, command in inner] or [(name, target)]
    return found


def test_each_command_that_shows_an_example_has_one(capsys: pytest.CaptureFixture[str]) -> None:
    with_examples = {
        name for name, command in commands() if isinstance(command, CommandWithExamples)
    }
    assert {"board", "diagnose", "export", "hub push", "plot", "report"} <= with_examples
    for name in sorted(with_examples):
        assert main(name.split()) == 2
        hint = capsys.readouterr().err.splitlines()[-1].removeprefix("  hint: ")
        assert hint.startswith(f"dicore {name} ")
        assert "   " not in hint
        assert len(shlex.split(hint)) > len(name.split()) + 1


@pytest.mark.parametrize(
    ("kind", "name"),
    [("policy", "sac"), ("policy", "mappo"), ("env", "moving"), ("env", "bipedalwalker"),
     ("policy", "efficient_zero"), ("env", "board_game")],
)  # fmt: skip
def test_the_use_of_a_component_can_be_run(
    kind: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", f"{kind}/{name}"]) == 0
    shown = capsys.readouterr().out.splitlines()
    use = next(line for line in shown if line.startswith("use ")).removeprefix("use ").split()
    assert main([*use[1:], "--dry-run"]) == 0


def test_the_use_of_what_needs_more_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    for name, use in (
        ("policy/cql", "train -e pendulum -p cql pipeline.dataset.path=DATA"),
        ("policy/random", "enjoy cartpole -p random"),
        ("env/gymnasium", "train -e gymnasium -p dqn env.env_id=… --max-env-step 20000"),
    ):
        assert main(["show", name]) == 0
        assert f"dicore {use}\n" in capsys.readouterr().out
