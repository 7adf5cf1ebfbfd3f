"""What a process says: all, the usual, or results alone."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest

from dicore.cli import _show_warning, main, report
from dicore.console import Level, chatter, is_terminal, say, write_table
from dicore.errors import ConfigError, ConfigWarning
from dicore.testing import isolated_registry


@pytest.mark.parametrize(
    ("level", "heard"), [("quiet", []), ("normal", ["warning"]), ("verbose", ["debug", "warning"])]
)
def test_parts_of_strangers_are_heard_like_ours(
    level: Level, heard: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    caplog.handler.setLevel(logging.NOTSET)
    part = logging.getLogger("acme_parts.env")
    with isolated_registry() as registry:

        class Maze:
            """A maze."""

        Maze.__module__ = "acme_parts.env"
        registry.register("env", "maze")(Maze)
        with chatter(level):
            part.debug("debug")
            part.warning("warning")
        part.debug("later")
    assert [record.message for record in caplog.records] == heard


ESCAPES = "a\x1b[2Jb\x9bc\rd\u202ee\x7f"
SHOWN = r"a\x1b[2Jb\x9bc\x0dd\u202ee\x7f"


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Names and values may come from files of others."""
    say(f"{ESCAPES}\tund\nsoweiter ☃")
    write_table(("option", "value"), [("x", ESCAPES)])
    report(ConfigError(ESCAPES, hint=ESCAPES), debug=False)
    assert main(["config", "check", "-e", ESCAPES, "-p", "dqn"]) == 2
    said = capsys.readouterr()
    assert said.out.count(SHOWN) == 2
    assert "\tund\nsoweiter ☃\n" in said.out
    assert said.err.count(SHOWN) == 4
    assert not set(said.out + said.err) & {"\x1b", "\x9b", "\r", "\u202e", "\x7f"}


def test_warnings_of_others_have_their_place(capsys: pytest.CaptureFixture[str]) -> None:
    _show_warning("\x1b[33mWARN: look\x1b[0m", UserWarning, "env.py", 5)
    _show_warning("so", ConfigWarning, "config.py", 5)
    assert capsys.readouterr().err == "warning: look (UserWarning at env.py:5)\nwarning: so\n"


@pytest.mark.parametrize("stdout", [None, io.StringIO()])
def test_without_a_console_nothing_fails(
    stdout: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", stdout)
    assert not is_terminal()
    say("nobody hears it")
    assert stdout is None or stdout.getvalue() == "nobody hears it\n"


def test_a_full_disk_ends_no_training_but_loses_no_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dicore.console.lost", [])
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr("sys.stdout", full)
        say("400.0")
        with pytest.raises(OSError, match="No space left"):
            say("500.0", result=True)
