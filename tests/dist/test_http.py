"""The transport `http`, and master and slaves over it."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from dicore.errors import UsageError
from dicore_dist.links import http as module
from dicore_dist.links.errors import AuthenticationError, PeerError, RemoteTaskError
from dicore_dist.links.http import HttpTransport
from dicore_dist.links.master import Connection, Master, Slave, TaskStatus
from dicore_dist.links.wire import head_of

TOKEN = "a token of the tests"


def answer_to(port: int, request: bytes) -> bytes:
    """Sends bytes to a port; returns all that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=200) as raw:
        raw.sendall(request)
        raw.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := raw.recv(65536):
            answer += piece
    return answer


def status_of(port: int, request: bytes) -> int:
    return int(answer_to(port, request).split(b" ")[1])


def recorded_request(server: HttpTransport, name: str, *, arrives: bool = True) -> bytes:
    """Returns the bytes of a request, which someone between the processes saw."""
    middle = socket.create_server(("127.0.0.1", 0))
    asked = HttpTransport(peer=f"127.0.0.1:{middle.getsockname()[1]}", token=TOKEN)

    def ask() -> None:
        with contextlib.suppress(PeerError):
            asked.request(name, {"x": 1}, timeout=200)

    asking = threading.Thread(target=ask)
    asking.start()
    with middle:
        hello, _ = middle.accept()
        with hello:
            hello.sendall(answer_to(server.port, whole_request(hello)))
        made, _ = middle.accept()
    with made:
        seen = whole_request(made)
        if arrives:
            made.sendall(answer_to(server.port, seen))
    asking.join(60)
    return seen


def whole_request(made: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += made.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < size:
        body += made.recv(65536)
    return head + b"\r\n\r\n" + body


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
    with pytest.raises(RemoteTaskError, match="ValueError: no luck today") as told:
        asked.request("fail", {})
    assert told.value.hint == "see the output of the process in which it failed"
    with pytest.raises(RemoteTaskError, match="'other' is not served; expected double, fail"):
        asked.request("other", {})


def test_the_hint_of_an_error_comes_with_it(server: HttpTransport) -> None:
    def full(_: object) -> None:
        raise UsageError("there is no room", hint="make some")

    server.serve("full", full)
    with pytest.raises(RemoteTaskError, match="UsageError: there is no room") as told:
        client(server).request("full", {})
    assert told.value.hint == "make some"


def test_another_token_is_refused_before_anything_is_read(server: HttpTransport) -> None:
    with pytest.raises(AuthenticationError, match="another token"):
        client(server, "another").request("double", {"x": 1})


def test_another_version_is_refused_with_both(server: HttpTransport) -> None:
    """RELIABILITY I13."""
    asked, number, mine = client(server), "0" * 32, module.__version__
    headers = {module._NUMBER: number, module._VERSION: "9.9.9"}
    headers |= asked._seal("double", headers, b"")
    head = head_of("POST /double HTTP/1.1", headers, 0)
    assert status_of(server.port, head) == 403
    answer = answer_to(server.port, head)
    assert b"9.9.9" in answer
    assert mine.encode() in answer


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", {}, 403),
        (b"\x80\x04.", {"X-Dicore-Request": "0" * 32, "X-Dicore-Signature": "0" * 64}, 403),
        (b"", {"X-Long": "x" * 9000}, 400),
        (b"x", {"Content-Length": str(1 << 40)}, 400),
        (b"x", {"Content-Length": "-1"}, 400),
    ],
)
def test_raw_requests_are_refused_and_others_go_on(
    server: HttpTransport, body: bytes, headers: dict[str, str], status: int
) -> None:
    """RELIABILITY E07."""
    raw = http.client.HTTPConnection("127.0.0.1", server.port, timeout=200)
    raw.request("POST", "/double", body, headers)
    assert raw.getresponse().status == status
    raw.close()
    assert client(server).request("double", {"x": 2})["double"] == 4


def ticking(transport: HttpTransport) -> list[int]:
    """Serves a request that counts its calls; returns the list of them."""
    calls: list[int] = []

    def tick(data: Mapping[str, Any]) -> Mapping[str, Any]:
        calls.append(len(calls))
        return {"count": len(calls)}

    transport.serve("tick", tick)
    return calls


def test_a_recorded_request_is_refused_by_everyone(server: HttpTransport) -> None:
    """RELIABILITY I09: again, after many others, by another process and by the next start."""
    calls = ticking(server)
    recorded = recorded_request(server, "tick")
    assert len(calls) == 1
    for _ in range(600):
        server.serve("other", dict)
        client(server).request("other", {})
    assert status_of(server.port, recorded) == 409
    port = server.port
    with contextlib.closing(HttpTransport(token=TOKEN)) as another:
        others = ticking(another)
        assert status_of(another.port, recorded) == 409
    server.close()
    with contextlib.closing(HttpTransport(port=port, token=TOKEN)) as restarted:
        later = ticking(restarted)
        assert status_of(port, recorded) == 409
    assert (len(calls), len(others), len(later)) == (1, 0, 0)


def test_an_old_request_is_refused_although_it_never_arrived(
    server: HttpTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = ticking(server)
    recorded = recorded_request(server, "tick", arrives=False)
    monkeypatch.setattr(module, "_WINDOW_S", -1.0)
    assert b"older than" in answer_to(server.port, recorded)
    assert calls == []


def test_a_client_goes_on_with_the_next_start_of_a_process(server: HttpTransport) -> None:
    asked, port = client(server), server.port
    assert asked.request("double", {"x": 1})["double"] == 2
    server.close()
    with contextlib.closing(HttpTransport(port=port, token=TOKEN)) as restarted:
        restarted.serve("double", lambda data: {"double": 3 * data["x"]})
        assert asked.request("double", {"x": 1})["double"] == 3


def test_a_body_that_was_changed_is_refused(server: HttpTransport) -> None:
    recorded = recorded_request(server, "double", arrives=False)
    changed = recorded[:-1] + bytes([recorded[-1] ^ 1])
    assert b"changed on its way" in answer_to(server.port, changed)


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
        assert asked.request("tick", {}, timeout=200)["count"] == 1
        forwarding.join(60)
    assert count == 1


def _forward(middle: socket.socket, port: int) -> None:
    """Forwards a hello and a request, whose response it loses; then both once more."""
    for number in range(4):
        made, _ = middle.accept()
        with made:
            answer = answer_to(port, whole_request(made))
            if number != 1:
                made.sendall(answer)


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


class Worker(Slave):
    concurrent = frozenset({"release"})

    def __init__(self) -> None:
        super().__init__(token=TOKEN)
        self.free = threading.Event()

    def _process_task(self, name: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        if name == "release":
            self.free.set()
        elif name == "wait":
            self.free.wait(60)
        elif name == "fail":
            raise KeyError("a key that is missing")
        elif name == "exit":
            raise SystemExit(3)
        elif name == "interrupt":
            raise KeyboardInterrupt("pressed")
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
    assert good.start().join(60).status is TaskStatus.COMPLETED
    assert good.result == {"done": "good"}
    bad = connection.new_task("fail").on_fail(lambda task: seen.append(task.name)).start().join(60)
    assert bad.status is TaskStatus.FAILED
    assert "a key that is missing" in str(bad.error)
    assert seen == ["good", "fail"]


@pytest.mark.parametrize(
    ("name", "text"), [("exit", "SystemExit: 3"), ("interrupt", "KeyboardInterrupt: pressed")]
)
def test_a_task_that_ends_its_thread_has_failed(worker: Worker, name: str, text: str) -> None:
    """FEATURES I35, I36; the slave goes on."""
    connection = Connection(worker.address, TOKEN)
    task = connection.new_task(name).start().join(60)
    assert task.status is TaskStatus.FAILED
    assert text in str(task.error)
    assert connection.process("good") == {"done": "good"}


def test_one_task_at_a_time_except_those_that_end_one(worker: Worker) -> None:
    connection = Connection(worker.address, TOKEN)
    waiting = connection.new_task("wait").start()
    end = time.monotonic() + 60
    while not worker._present:
        assert time.monotonic() < end
        time.sleep(0.005)
    with pytest.raises(RemoteTaskError, match="busy with 'wait', 'good' is refused"):
        connection.process("good")
    assert connection.process("release") == {"done": "release"}
    assert waiting.join(60).status is TaskStatus.COMPLETED


def test_the_task_of_a_master_that_was_replaced_ends_before_the_next_one(worker: Worker) -> None:
    old, new = (Connection(worker.address, TOKEN, master=("job", epoch)) for epoch in (1, 2))
    waiting = old.new_task("wait").start()
    end = time.monotonic() + 60
    while not worker._present:
        assert time.monotonic() < end
        time.sleep(0.005)
    task = new.new_task("good").start()
    time.sleep(0.05)
    assert task.status is not TaskStatus.COMPLETED
    assert new.process("release") == {"done": "release"}
    assert waiting.join(60).status is TaskStatus.COMPLETED
    assert task.join(60).status is TaskStatus.COMPLETED
    with pytest.raises(RemoteTaskError, match="number 1, was replaced by number 2"):
        old.process("good")


def test_a_slave_that_is_gone_fails_its_task_in_time(worker: Worker) -> None:
    connection = Connection(worker.address, TOKEN, heartbeat_s=0.1, tolerance_s=0.5)
    task = connection.new_task("wait").start()
    end = time.monotonic() + 60
    while not worker._present:
        assert time.monotonic() < end
        time.sleep(0.005)
    closing = threading.Thread(target=worker._transport.close)
    closing.start()
    assert task.join(60).status is TaskStatus.FAILED
    assert "silent" in str(task.error)
    worker.free.set()
    closing.join(60)
