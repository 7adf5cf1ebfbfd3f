"""The transport `http`, and master and slaves over it."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from dicore.errors import MissingDependencyError, UsageError
from dicore_plugins.comm import http as module
from dicore_plugins.comm.errors import AuthenticationError, PeerError, RemoteTaskError
from dicore_plugins.comm.frames import pack
from dicore_plugins.comm.http import HttpTransport
from dicore_plugins.comm.master import Connection, Master, Slave, TaskStatus

TOKEN = "a token of the tests"


@pytest.fixture
def server() -> Iterator[HttpTransport]:
    made = HttpTransport(token=TOKEN)
    calls: list[Any] = []
    made.serve("double", lambda data: {"double": 2 * data["x"], "calls": len(calls)})

    def fail(data: Mapping[str, Any]) -> Mapping[str, Any]:
        raise ValueError("no luck today")

    made.serve("fail", fail)
    yield made
    made.close()


def client(server: HttpTransport, token: str = TOKEN) -> HttpTransport:
    return HttpTransport(peer=f"127.0.0.1:{server.port}", token=token)


def test_data_comes_back_and_errors_as_text(server: HttpTransport) -> None:
    asked = client(server)
    assert asked.request("double", {"x": np.arange(3)})["double"].tolist() == [0, 2, 4]
    with pytest.raises(RemoteTaskError, match="ValueError: no luck today"):
        asked.request("fail", {})
    with pytest.raises(RemoteTaskError, match="'other' is not served; expected double, fail"):
        asked.request("other", {})


def test_another_token_is_refused_before_anything_is_read(server: HttpTransport) -> None:
    with pytest.raises(AuthenticationError, match="another token"):
        client(server, "another").request("double", {"x": 1})


def test_another_version_is_refused_with_both(
    server: HttpTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RELIABILITY I13."""
    number, body = "0" * 32, pack({"x": 1})
    signature = server._sign("double", number, body)
    raw = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    headers = {module._NUMBER: number, module._SIGNATURE: signature, module._VERSION: "9.9.9"}
    raw.request("POST", "/double", body, headers)
    answer = raw.getresponse()
    text = answer.read()
    raw.close()
    assert answer.status == 403
    assert b"9.9.9" in text
    assert module.__version__.encode() in text


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", {}, 403),
        (b"\x80\x04.", {"X-Dicore-Request": "0" * 32, "X-Dicore-Signature": "0" * 64}, 403),
        (b"x", {"Content-Length": str(1 << 40)}, 400),
        (b"x", {"Content-Length": "-1"}, 400),
    ],
)
def test_raw_requests_are_refused_and_others_go_on(
    server: HttpTransport, body: bytes, headers: dict[str, str], status: int
) -> None:
    """RELIABILITY E07."""
    raw = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    raw.request("POST", "/double", body, headers)
    assert raw.getresponse().status == status
    raw.close()
    assert client(server).request("double", {"x": 2})["double"] == 4


def test_a_repeated_request_is_answered_once(server: HttpTransport) -> None:
    """RELIABILITY I09."""
    count = 0

    def tick(data: Mapping[str, Any]) -> Mapping[str, Any]:
        nonlocal count
        count += 1
        return {"count": count}

    server.serve("tick", tick)
    number, body = "1" * 32, pack({})
    headers = {
        module._NUMBER: number,
        module._VERSION: module.__version__,
        module._SIGNATURE: server._sign("tick", number, body),
    }
    for _ in range(3):
        raw = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        raw.request("POST", "/tick", body, headers)
        assert raw.getresponse().status == 200
        raw.close()
    assert count == 1


def test_over_a_cut_connection_a_request_is_sent_again_and_answered_once(
    server: HttpTransport,
) -> None:
    """RELIABILITY I09: the first response is lost on its way."""
    count = 0

    def tick(data: Mapping[str, Any]) -> Mapping[str, Any]:
        nonlocal count
        count += 1
        return {"count": count}

    server.serve("tick", tick)
    with socket.create_server(("127.0.0.1", 0)) as middle:
        forwarding = threading.Thread(target=_forward, args=(middle, server.port))
        forwarding.start()
        asked = HttpTransport(peer=f"127.0.0.1:{middle.getsockname()[1]}", token=TOKEN)
        assert asked.request("tick", {}, timeout=5)["count"] == 1
        forwarding.join(5)
    assert count == 1


def _forward(middle: socket.socket, port: int) -> None:
    """Forwards two requests; loses the response of the first one."""
    for number in range(2):
        client, _ = middle.accept()
        with client, socket.create_connection(("127.0.0.1", port)) as behind:
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(65536)
            size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            while len(head.split(b"\r\n\r\n", 1)[1]) < size:
                head += client.recv(65536)
            behind.sendall(head.replace(b"keep-alive", b"close"))
            answer = b""
            while piece := behind.recv(65536):
                answer += piece
            if number:
                client.sendall(answer)


def test_nobody_there_a_port_in_use_and_no_token(
    server: HttpTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DICORE_TOKEN", raising=False)
    with pytest.raises(PeerError, match=r"127\.0\.0\.1:1"):
        HttpTransport(peer="127.0.0.1:1", token=TOKEN).request("double", {})
    with pytest.raises(PeerError, match=str(server.port)):
        HttpTransport(port=server.port, token=TOKEN).serve("x", dict)
    with pytest.raises(UsageError, match="token"):
        HttpTransport().serve("x", dict)


def test_without_its_packages_the_pip_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="requests, werkzeug") as caught:
        HttpTransport(token=TOKEN)
    assert "dicore-plugins[comm]" in caught.value.hint


class Worker(Slave):
    concurrent = frozenset({"release"})

    def __init__(self) -> None:
        super().__init__(token=TOKEN)
        self.free = threading.Event()

    def _process_task(self, name: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        if name == "release":
            self.free.set()
        elif name == "wait":
            self.free.wait(10)
        elif name == "fail":
            raise KeyError("a key that is missing")
        return {"done": name}


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    made.start()
    yield made
    made.free.set()
    made.close()


def test_a_task_completes_or_fails_with_the_text_of_any_exception(worker: Worker) -> None:
    """FEATURES I35."""
    host, _, port = worker.address.partition(":")
    connection = Master(TOKEN).connect(host, int(port))
    seen: list[str] = []
    good = connection.new_task("good").on_complete(lambda task: seen.append(task.name))
    assert good.status is TaskStatus.IDLE
    assert good.start().join(10).status is TaskStatus.COMPLETED
    assert good.result == {"done": "good"}
    bad = connection.new_task("fail").on_fail(lambda task: seen.append(task.name)).start().join(10)
    assert bad.status is TaskStatus.FAILED
    assert "a key that is missing" in str(bad.error)
    assert seen == ["good", "fail"]


def test_one_task_at_a_time_except_those_that_end_one(worker: Worker) -> None:
    connection = Connection(worker.address, TOKEN)
    waiting = connection.new_task("wait").start()
    end = time.monotonic() + 10
    while not worker._present:
        assert time.monotonic() < end
        time.sleep(0.005)
    with pytest.raises(RemoteTaskError, match="busy with 'wait', 'good' is refused"):
        connection.process("good")
    assert connection.process("release") == {"done": "release"}
    assert waiting.join(10).status is TaskStatus.COMPLETED


def test_the_task_of_a_master_that_was_replaced_ends_before_the_next_one(worker: Worker) -> None:
    old, new = (Connection(worker.address, TOKEN, master=("job", epoch)) for epoch in (1, 2))
    waiting = old.new_task("wait").start()
    end = time.monotonic() + 10
    while not worker._present:
        assert time.monotonic() < end
        time.sleep(0.005)
    task = new.new_task("good").start()
    time.sleep(0.05)
    assert task.status is not TaskStatus.COMPLETED
    assert new.process("release") == {"done": "release"}
    assert waiting.join(10).status is TaskStatus.COMPLETED
    assert task.join(10).status is TaskStatus.COMPLETED
    with pytest.raises(RemoteTaskError, match="number 1, was replaced by number 2"):
        old.process("good")


def test_a_slave_that_is_gone_fails_its_task_in_time(worker: Worker) -> None:
    connection = Connection(worker.address, TOKEN, heartbeat_s=0.1, tolerance_s=0.5)
    task = connection.new_task("wait").start()
    end = time.monotonic() + 10
    while not worker._present:
        assert time.monotonic() < end
        time.sleep(0.005)
    worker._transport.close()
    assert task.join(10).status is TaskStatus.FAILED
    assert "silent" in str(task.error)
