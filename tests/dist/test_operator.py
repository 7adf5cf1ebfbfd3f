"""The client of an operator's replica API, against a server of its form."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from dicore.errors import MissingDependencyError, UsageError
from dicore_dist import OperatorServer
from dicore_dist.links.errors import PeerError, RemoteTaskError

ASKED: list[tuple[str, str, Any]] = []


class Operator(BaseHTTPRequestHandler):
    """Answers as DI-engine's operator does."""

    def do_GET(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        content = json.loads(self.rfile.read(size)) if size else None
        ASKED.append((self.command, self.path, content))
        answer: dict[str, Any] = {"success": True, "code": 0, "message": "", "data": {}}
        if self.command == "GET":
            answer["data"] = {"collectors": ["collector0:80"], "learners": []}
        elif self.command == "DELETE":
            answer |= {"success": False, "message": "nothing to delete"}
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        pass


@pytest.fixture
def operator() -> Iterator[OperatorServer]:
    ASKED.clear()
    server = HTTPServer(("127.0.0.1", 0), Operator)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield OperatorServer("127.0.0.1", server.server_port)
    server.shutdown()
    server.server_close()
    thread.join()


def test_replicas_are_asked_for_ended_and_replaced(operator: OperatorServer) -> None:
    """FEATURES I39."""
    assert operator.get_replicas()["collectors"] == ["collector0:80"]
    operator.post_replicas(collectors=3, learners=1)
    operator.report("collector2")
    with pytest.raises(RemoteTaskError, match="refuses DELETE replicas: nothing to delete"):
        operator.delete_replicas(collectors=1)
    wanted = {"collectors": {"replicas": 3}, "learners": {"replicas": 1}}
    assert [
        ("GET", "/v1alpha1/replicas", None),
        ("POST", "/v1alpha1/replicas", wanted),
        ("POST", "/v1alpha1/replicasFailed", {"collectors": ["collector2"], "learners": []}),
        ("DELETE", "/v1alpha1/replicas", {"collectors": {"replicas": 1}}),
    ] == ASKED


def test_an_operator_that_is_not_there_is_one_error() -> None:
    absent = OperatorServer("127.0.0.1:1")
    with pytest.raises(PeerError, match=r"no operator answers at 127\.0\.0\.1:1"):
        absent.get_replicas()
    absent.report("learner0")  # a warning
    with pytest.raises(UsageError, match="expected host:port"):
        OperatorServer("somewhere")


def test_without_its_package_the_pip_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "requests", None)
    with pytest.raises(MissingDependencyError) as caught:
        OperatorServer("127.0.0.1:1").get_replicas()
    assert "dicore-dist[comm]" in caught.value.hint
