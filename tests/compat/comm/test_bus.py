"""The message queue `tcp`: delivery, proofs of the token, attacks on the port, back-pressure."""

from __future__ import annotations

import contextlib
import pickle  # noqa: TID251 - to see that it is refused
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.errors import ClosedError, UsageError
from dicore_compat.comm import TcpQueue
from dicore_dist.links import channel as channels
from dicore_dist.links.channel import Channel, connect
from dicore_dist.links.errors import AuthenticationError, PeerError
from dicore_plugins.messages import FrameError, encode, pack

TOKEN = "a token of the tests"


@pytest.fixture
def queues() -> Iterator[Any]:
    made: list[TcpQueue] = []

    def make(*attach_to: str, token: str = TOKEN, **options: Any) -> TcpQueue:
        made.append(TcpQueue(attach_to=attach_to, token=token, node=len(made), **options))
        made[-1].listen()
        return made[-1]

    yield make
    for each in made:
        each.stop(timeout=0.5)


def wanted(queue: TcpQueue, topic: str) -> None:
    """Waits until a peer has subscribed."""
    end = time.monotonic() + 60
    while not queue.is_wanted(topic):
        assert time.monotonic() < end
        time.sleep(0.005)


def test_messages_reach_subscribers_only_in_order(queues: Any) -> None:
    first = queues()
    second, third = queues(first.address), queues(first.address)
    second.subscribe("a")
    third.subscribe("b")
    third.subscribe("a")
    third.unsubscribe("a")
    wanted(first, "a")
    wanted(first, "b")
    for number in range(20):
        first.publish("a", bytes([number]))
    first.publish("b", b"for the third")
    assert [second.recv() for _ in range(20)] == [("a", bytes([n])) for n in range(20)]
    assert third.recv() == ("b", b"for the third")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:0", "ipc"])
def test_the_last_messages_of_a_process_that_leaves_arrive(
    address: str, queues: Any, tmp_path: Path
) -> None:
    """Who cannot send to it any more goes on reading."""
    listen_to = f"ipc://{tmp_path}/socket" if address == "ipc" else address
    leaves = queues(listen_to=listen_to, queue_size=2)
    stays = queues(leaves.address, queue_size=2)
    for each in (leaves, stays):
        each.subscribe("a")
    wanted(leaves, "a")
    wanted(stays, "a")
    for _ in range(4):  # more than `leaves` takes
        stays.publish("a", bytes(1000))
    for number in range(12):
        leaves.publish("a", bytes([number]))
    end = threading.Thread(target=leaves.stop)
    end.start()
    assert stays.recv()[1] == bytes([0])
    for _ in range(4):
        time.sleep(0.05)
        stays.publish("a", bytes(1000))
    assert [stays.recv()[1] for _ in range(11)] == [bytes([n]) for n in range(1, 12)]
    end.join()


def test_a_stopped_queue_wakes_recv_and_leaves_no_thread(queues: Any) -> None:
    first = queues()
    second = queues(first.address)
    assert second.wait_for_peers(1, 60) == 1
    failed: list[Exception] = []

    def receive() -> None:
        try:
            first.recv()
        except ClosedError as error:
            failed.append(error)

    thread = threading.Thread(target=receive)
    thread.start()
    first.stop()
    second.stop()
    thread.join(60)
    assert len(failed) == 1
    names = [each.name for each in threading.enumerate()]
    assert not [name for name in names if name in ("dicore-accept", "dicore-peer", "dicore-send")]


def test_without_a_token_nothing_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DICORE_TOKEN", raising=False)
    with pytest.raises(UsageError, match="token"):
        TcpQueue().listen()


def test_another_token_is_refused_on_both_sides(queues: Any) -> None:
    first = queues()
    other = queues(first.address, token="another token")
    with pytest.raises(AuthenticationError, match="another token"):
        other.recv()
    assert first.peers == ()


def test_another_version_is_refused_with_both_versions(
    queues: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = queues()
    monkeypatch.setattr(channels, "__version__", "9.9.9")
    sock = connect(first.address)
    monkeypatch.undo()
    hello = {"node": 7, "dicore": "9.9.9", "protocol": 1, "nonce": "0" * 32}
    sock.sendall(b"".join(encode(hello)))
    answer = sock.recv(4096)
    sock.close()
    assert b"9.9.9" in answer
    assert b"0.1.0" in answer


ATTACKS = {
    "pickle": pickle.dumps({"x": np.ones(3)}),
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "zeros": bytes(100),
    "huge header": channels.PREFIX.pack(b"dcF1", 1 << 31, 0),
    "huge body": channels.PREFIX.pack(b"dcF1", 2, 1 << 40) + b"{}",
    "message without proof": pack({"topic": "a", "data": np.zeros(3, np.uint8)}),
    "hello without nonce": pack({"dicore": "0.1.0", "protocol": 1}),
    "wrong proof": pack({"dicore": "0.1.0", "protocol": 1, "nonce": "0" * 32})
    + pack({"proof": "0" * 64}),
    "nothing": b"",
}


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_an_attack_on_the_port_closes_that_connection_only(queues: Any, attack: str) -> None:
    """RELIABILITY E07: raw clients; nothing is unpickled, others go on."""
    first = queues()
    second = queues(first.address)
    second.subscribe("a")
    wanted(first, "a")
    with connect(first.address) as sock:
        sock.settimeout(10)
        with contextlib.suppress(OSError):
            sock.sendall(ATTACKS[attack])
            sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            while sock.recv(4096):
                pass  # ends when the queue closes the connection
    first.publish("a", b"still here")
    assert second.recv() == ("a", b"still here")
    assert first.peers == (1,)


def test_a_repeated_or_changed_frame_is_refused() -> None:
    left, right = socket.socketpair()
    made: list[Channel] = []
    dial = threading.Thread(target=lambda: made.append(Channel(left, TOKEN, {}, dialed=True)))
    dial.start()
    receiver = Channel(right, TOKEN, {}, dialed=False)
    dial.join(60)
    sender = made[0]
    sender.send({"n": 1})
    assert receiver.receive() == {"n": 1}
    sender._sent -= 1  # the same number again, as a recorded frame has
    sender.send({"n": 1})
    with pytest.raises(FrameError, match="seal"):
        receiver.receive()
    sender.close()
    receiver.close()


def test_a_silent_peer_is_dropped_and_publish_goes_on(queues: Any) -> None:
    """RELIABILITY I08: a connected process that stops answering counts as lost."""
    first = queues(silence_s=0.3, queue_size=2)
    silent = Channel(connect(first.address), TOKEN, {"node": 9}, dialed=True)
    silent.send({"topics": ["a"]})
    wanted(first, "a")
    start = time.monotonic()
    while first.is_wanted("a"):
        first.publish("a", bytes(1 << 20))
        assert time.monotonic() < start + 60
    assert first.dropped > 0
    silent.close()


def test_a_slow_reader_slows_the_sender_and_memory_stays_bounded(queues: Any) -> None:
    """RELIABILITY I06: at most the queues of both sides and the socket's buffers wait."""
    first = queues(queue_size=4)
    second = queues(first.address, queue_size=4)
    second.subscribe("a")
    wanted(first, "a")
    sent = 0

    def publish() -> None:
        nonlocal sent
        for _ in range(60):
            first.publish("a", bytes(1 << 20))
            sent += 1

    thread = threading.Thread(target=publish)
    thread.start()
    thread.join(0.5)
    assert sent < 60
    for _ in range(60):
        assert len(second.recv()[1]) == 1 << 20
    thread.join(60)
    assert sent == 60


def test_processes_that_connect_to_this_one_are_not_those_that_it_waits_for(queues: Any) -> None:
    """Else a process begins before it is connected to those before it, and misses their events."""
    gone = queues()
    address = gone.address
    gone.stop()
    second = queues(address)
    third = queues(second.address)
    assert third.wait_for_peers(1, 60) == 1
    wanted_by = time.monotonic() + 60
    while not second.peers and time.monotonic() < wanted_by:
        time.sleep(0.01)
    assert len(second.peers) == 1
    assert second.wait_for_peers(1, 0.1) == 0


def test_a_lost_connection_is_made_again(queues: Any) -> None:
    first = queues()
    address = first.address
    second = queues(address)
    assert second.wait_for_peers(1, 60) == 1
    first.stop()
    again = queues(listen_to=address)
    second.subscribe("a")
    wanted(again, "a")
    again.publish("a", b"back")
    assert second.recv() == ("a", b"back")


def test_a_port_in_use_is_an_error_that_names_it(queues: Any) -> None:
    first = queues()
    with pytest.raises(PeerError, match=first.address.replace(".", r"\.")):
        TcpQueue(first.address, token=TOKEN).listen()


@pytest.mark.parametrize("address", ["localhost", "tcp://:1", "tcp://x:99999", "ipc://relative"])
def test_what_is_not_an_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        TcpQueue(address, token=TOKEN).listen()
