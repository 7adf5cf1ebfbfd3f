"""A board that answers on this machine, and runs to look at."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.types import ASGIApp

from dicore_tools.board.app import make_app
from dicore_tools.board.server import listen, make_server
from dicore_tools.reports.curves import TAG
from tests.tools.reports.test_curves import make_run

__all__ = ["Board", "Made", "Serve", "add_line", "board", "runs", "serve"]

POINTS = [(0, 9.0), (100, 200.0), (200, 480.0)]


class Reply(NamedTuple):
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Board(NamedTuple):
    """A board that answers."""

    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> Reply:
        """Sends one request; `_` in names of headers stands for `-`."""
        link = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            link.request(method, path, body, named)
            answer = link.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        finally:
            link.close()

    def change(self, body: object, **headers: str) -> Reply:
        """Sends a change as the page does."""
        own = {"Origin": self.address, "Content_Type": "application/json", **headers}
        return self.ask("/api/tags", "POST", json.dumps(body), **own)

    def rows(self) -> dict[str, dict[str, Any]]:
        """Returns the rows of all runs, by name."""
        return {row["name"]: row for row in self.ask("/api/runs").json["rows"]}


Serve = Callable[..., Board]
Made = Callable[..., Path]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Returns a function that serves the runs in folders, or an application."""
    started = []

    def start(*places: Path, app: ASGIApp | None = None) -> Board:
        listener = listen(0)
        server = make_server(make_app(places) if app is None else app)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        started.append((server, thread))
        return Board(listener.getsockname()[1])

    yield start
    for server, thread in started:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two seeds of one config, and one run of another."""
    folder = tmp_path / "runs"
    make_run(folder / "a_s0", POINTS, stop=True, seed=0)
    make_run(folder / "a_s1", [(0, 11.0), (100, 100.0), (300, 300.0)], seed=1)
    make_run(folder / "b_s0", [(0, 10.0), (400, 50.0)], policy={"type": "dqn", "nstep": 3})
    return folder


@pytest.fixture
def board(runs: Path, serve: Serve) -> Board:
    """A board of `runs`."""
    return serve(runs)


def add_line(run: Path, step: int, value: float, tag: str = TAG) -> None:
    """Appends a value of a metric."""
    line = {"step": step, "train_iter": step // 2, "time": step / 100, tag: value}
    with (run / "log/metrics.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
