"""What a process says: all, the usual, or results alone."""

from __future__ import annotations

import io
import logging

import pytest

from dicore.console import Level, chatter, is_terminal, say
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


@pytest.mark.parametrize("stdout", [None, io.StringIO()])
def test_without_a_console_nothing_fails(
    stdout: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", stdout)
    assert not is_terminal()
    say("nobody hears it")
    assert stdout is None or stdout.getvalue() == "nobody hears it\n"
