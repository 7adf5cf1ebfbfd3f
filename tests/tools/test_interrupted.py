"""A signal that ends a command prints one line, which says what was saved."""

from __future__ import annotations

import signal
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dicore.cli import main
from dicore.run.signals import StopNow
from dicore_tools.commands.interrupted import says_what_was_saved


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/old").write_text("here before")
    return tmp_path / "out"


def ended(saved: int, stop: BaseException) -> tuple[int, str]:
    @click.command()
    @click.option("--out", default="out")
    @says_what_was_saved("out")
    def command(out: str) -> None:
        for number in range(saved):
            (Path(out) / f"{number}.mp4").touch()
            (Path(out) / f".tmp-{number}").touch()
        raise stop

    result = CliRunner().invoke(command)
    return result.exit_code, result.stderr


@pytest.mark.usefixtures("out")
def test_what_was_saved_is_named() -> None:
    stop = KeyboardInterrupt()
    assert ended(0, stop)[1].startswith("interrupted: nothing was saved\n")
    assert "interrupted: saved until then: out/0.mp4, out/1.mp4\n" in ended(2, stop)[1]
    assert "out/0.mp4, out/1.mp4, out/2.mp4 and 2 more\n" in ended(5, stop)[1]


def test_a_command_without_anything_to_save_says_that_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed(*_: object, **given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dicore.run.launch.launch", pressed)
    assert main(["train", "-e", "cartpole", "-p", "dqn"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.usefixtures("out")
def test_a_training_within_a_command_was_stopped() -> None:
    assert ended(0, StopNow(signal.SIGTERM)) == (143, "interrupted: nothing was saved\n")
    assert ended(0, SystemExit(143)) == (143, "interrupted: nothing was saved\n")


def test_other_ends_print_nothing(out: Path) -> None:
    assert ended(1, SystemExit(1)) == (1, "")
    assert (out / "0.mp4").exists()


@pytest.mark.parametrize("name", ["collect", "enjoy", "eval", "export", "replay", "verify"])
def test_commands_that_save_say_it(name: str) -> None:
    from importlib import import_module

    command = import_module(f"dicore_tools.commands.{name}").command
    assert command.callback.__wrapped__.__module__ == f"dicore_tools.commands.{name}"
