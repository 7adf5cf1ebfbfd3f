"""`dicore board` as a process: where it listens, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import click
import pytest

from dicore.cli import main
from dicore.errors import UsageError
from dicore_tools.board.server import HOST, listen
from dicore_tools.commands.board import command
from tests.tools.board.conftest import Board, Serve
from tests.tools.conftest import mtimes

DICORE = [sys.executable, "-c", "import sys; from dicore.cli import main; sys.exit(main())"]


def test_ctrl_c_ends_it_quietly(runs: Path) -> None:
    before = mtimes(runs)
    with subprocess.Popen(
        [*DICORE, "board", str(runs)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            found = re.match(r"http://127\.0\.0\.1:(\d+) ", process.stdout.readline())
            assert found is not None
            with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/api/runs", timeout=60) as got:
                assert len(json.load(got)["rows"]) == 3
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "", "")
    assert mtimes(runs) == before


def test_it_listens_on_this_machine_alone() -> None:
    with listen() as one, listen() as other:
        ports = {each.getsockname() for each in (one, other)}
        assert {host for host, _ in ports} == {HOST} == {"127.0.0.1"}
        assert len(ports) == 2
    assert not {"--host", "--bind"} & {each for option in command.params for each in option.opts}


def test_a_port_in_use_is_told() -> None:
    with (
        socket.create_server((HOST, 0)) as taken,
        pytest.raises(UsageError, match="cannot be used"),
    ):
        listen(taken.getsockname()[1])


def test_a_folder_that_is_not_there_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["board", str(tmp_path / "nothing")]) == 2
    assert "no such folder" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_without_the_extra_it_is_named(runs: Path, package: str) -> None:
    code = (
        f"import sys; sys.modules['{package}'] = None; from dicore.cli import main;"
        " sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "board", str(runs)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode not in (0, 1)
    assert f"the board needs {package}" in done.stderr
    assert "pip install 'dicore-tools[board]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_browser_is_opened_on_request(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(click, "launch", opened.append)
    monkeypatch.setattr("dicore_tools.board.server.serve", lambda app, listener: listener.close())
    assert main(["board", str(runs), "--open", "-q"]) == 0
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", opened[0])


def test_idle_connections_keep_nobody_out(board: Board) -> None:
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection((HOST, board.port), 60))
                for _ in range(200)]  # fmt: skip
        assert board.ask("/api/runs").status == 200
        assert idle[0].recv(1) == b"", "the oldest was ended"
        idle[-1].sendall(b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert idle[-1].recv(12) == b"HTTP/1.1 200", "a new one may still ask"


def test_a_connection_that_asks_for_nothing_ends(
    runs: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dicore_tools.board.server._REQUEST_S", 0.1)
    board = serve(runs)
    with socket.create_connection((HOST, board.port), 60) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        assert slow.recv(1) == b""
    assert board.ask("/").status == 200
