"""Message queue over TCP or Unix sockets: every process sends to those that it is connected to.

Messages to a peer wait in a queue of limited size. `publish` blocks while it is full and the peer
is alive; a peer that is silent for 5 s is dropped, with what waits for it.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from dicore.errors import ClosedError, DicoreError, UsageError
from dicore_dist.links.channel import (
    SILENCE_S,
    TOKEN_VARIABLE,
    Channel,
    address_of,
    connect,
    listen,
    token_of,
)
from dicore_dist.links.errors import AuthenticationError
from dicore_dist.links.lobby import Lobby

__all__ = ["TcpQueue"]

_LOG = logging.getLogger("dicore.comm")
_BEAT_S: Final = 1.0
_RETRY_S: Final = (0.05, 2.0)
_READ_S: Final = 1.0
"""How long a process that leaves waits until its peers have read what it sent."""
_END: Final = ("", b"")


class TcpQueue:
    """Sends messages by topic to all connected processes; implements `IMessageQueue`.

    All processes share a token, which they prove to each other before the first message; messages
    are bytes, which nothing unpickles.

    Args:
        listen_to: Address for other processes, `tcp://host:port` (0: any free port) or
            `ipc:///path`; "": nobody connects to this process.
        attach_to: Addresses to connect to; lost connections are made again.
        token: The shared token; "": that of the variable `DICORE_TOKEN`.
        queue_size: Messages that may wait, for each peer and for `recv`.

    Attributes:
        node: Id of this process, told to peers.
        dropped: Messages that were not delivered because their peer was lost.
    """

    def __init__(
        self,
        listen_to: str = "tcp://127.0.0.1:0",
        attach_to: Sequence[str] = (),
        token: str = "",
        queue_size: int = 64,
        *,
        node: int = 0,
        sock: socket.socket | None = None,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._listen_to, self._attach_to = listen_to, tuple(attach_to)
        self._token = token_of(token)
        self._size, self._silence_s = queue_size, silence_s
        self.node, self.dropped = node, 0
        self._socket = sock
        self._topics: frozenset[str] = frozenset()
        self._peers: dict[int, _Peer] = {}
        self._changed = threading.Condition()
        self._arrived: queue.Queue[tuple[str, bytes]] = queue.Queue(queue_size)
        self._lobby = Lobby(f"node {node}")
        self._threads: list[threading.Thread] = []
        self._stopped, self._leaving = threading.Event(), False
        self._refused: AuthenticationError | None = None

    @property
    def address(self) -> str:
        """The address at which this process listens; "" if it does not."""
        return "" if self._socket is None else address_of(self._socket)

    @property
    def peers(self) -> tuple[int, ...]:
        """Ids of the nodes that are connected now."""
        with self._changed:
            return tuple(peer.node for peer in self._peers.values())

    def listen(self) -> None:
        """Starts to receive and to connect.

        Raises:
            PeerError: the port is in use.
            UsageError: there is no token.
        """
        if not self._token:
            raise UsageError(
                "a message queue needs a token", hint=f"set {TOKEN_VARIABLE} in all processes"
            )
        if self._socket is None and self._listen_to:
            self._socket = listen(self._listen_to)
        if self._socket is not None:
            self._start(self._accept, "accept")
        for address in self._attach_to:
            self._start(partial(self._dial, address), "dial")

    def subscribe(self, topic: str) -> None:
        """Starts to receive the messages of a topic."""
        with self._changed:
            if topic in self._topics:
                return
            self._topics |= {topic}
        self._tell_topics()

    def unsubscribe(self, topic: str) -> None:
        """Stops to receive the messages of a topic."""
        with self._changed:
            self._topics -= {topic}
        self._tell_topics()

    def publish(self, topic: str, data: bytes) -> None:
        """Sends to all connected subscribers; blocks while the queue of one of them is full."""
        with self._changed:
            peers = [peer for peer in self._peers.values() if topic in peer.topics]
        for peer in peers:
            if not peer.put({"topic": topic, "data": _as_array(data)}):
                self.dropped += 1

    def recv(self) -> tuple[str, bytes]:
        """Returns topic and data of the next message.

        Raises:
            ClosedError: the queue was stopped.
            AuthenticationError: a process of `attach_to` has another token or version.
        """
        topic, data = self._arrived.get()
        if (topic, data) == _END:
            self._arrived.put(_END)
            if self._refused is not None:
                raise self._refused
            raise ClosedError("the message queue was stopped")
        return topic, data

    def is_wanted(self, topic: str) -> bool:
        """Returns whether any connected process subscribed to a topic."""
        with self._changed:
            return any(topic in peer.topics for peer in self._peers.values())

    def wait_for_peers(self, count: int, timeout: float) -> int:
        """Waits until `count` processes of `attach_to` are connected; returns how many are."""

        def found() -> int:
            return sum(peer.dialed for peer in self._peers.values())

        with self._changed:
            self._changed.wait_for(lambda: found() >= count or self._stopped.is_set(), timeout)
            return found()

    def stop(self, timeout: float = 5.0) -> None:
        """Sends what waits, at most `timeout` seconds, and closes all connections."""
        if self._stopped.is_set():
            return
        end = time.monotonic() + timeout
        self._leaving = True
        with self._changed:
            peers = list(self._peers.values())
        for peer in peers:
            peer.finish(max(0.0, end - time.monotonic()))
        with self._changed:  # the peers close their side when they have read everything
            read = min(_READ_S, max(0.0, end - time.monotonic()))
            self._changed.wait_for(lambda: not {*peers} & {*self._peers.values()}, read)
        with self._changed:
            self._stopped.set()  # no thread starts from here on
        self._lobby.close()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
        with self._changed:
            peers = list(self._peers.values())
            self._changed.notify_all()
        for peer in peers:
            peer.close()
        self._end_recv()
        for thread in self._threads:
            thread.join(timeout=max(0.1, end - time.monotonic()))

    # ---- connections

    def _start(self, target: Callable[[], None], name: str) -> bool:
        """Starts a thread, unless the queue was stopped; returns whether it did."""
        with self._changed:
            if self._stopped.is_set():
                return False
            thread = threading.Thread(target=target, name=f"dicore-{name}", daemon=True)
            self._threads = [*(each for each in self._threads if each.is_alive()), thread]
            thread.start()
            return True

    def _accept(self) -> None:
        assert self._socket is not None
        while not self._stopped.is_set():
            self._stopped.wait(self._lobby.pause_s)
            try:
                made, address = self._socket.accept()
            except OSError:
                if self._stopped.wait(0.05):
                    return
                continue
            self._lobby.enter(made, address)
            if not self._start(partial(self._meet, made, address), "peer"):
                self._lobby.leave(made)
                made.close()

    def _meet(self, made: socket.socket, address: tuple[str, int] | str) -> None:
        try:
            channel = self._channel(made, dialed=False)
        except (DicoreError, OSError) as error:
            if not self._stopped.is_set():
                self._lobby.refused(address, error)
            return
        finally:
            self._lobby.leave(made)
        self._serve(channel)

    def _dial(self, address: str) -> None:
        wait = _RETRY_S[0]
        while not (self._stopped.is_set() or self._leaving):
            try:
                channel = self._channel(connect(address), dialed=True)
            except AuthenticationError as error:
                self._refused = error
                self._end_recv()
                return
            except (DicoreError, OSError):
                wait = min(2 * wait, _RETRY_S[1])
            else:
                self._serve(channel, dialed=True)
                wait = _RETRY_S[0]
            self._stopped.wait(wait)

    def _channel(self, made: socket.socket, *, dialed: bool) -> Channel:
        node = {"node": self.node}
        return Channel(made, self._token, node, dialed=dialed, silence_s=self._silence_s)

    def _serve(self, channel: Channel, *, dialed: bool = False) -> None:
        """Receives the messages of a peer until its connection ends."""
        peer = _Peer(channel, self._size, dialed=dialed)
        with self._changed:
            self._peers[id(peer)] = peer
            self._changed.notify_all()
        peer.put_topics(lambda: self._topics)
        self._start(peer.write, "send")
        try:
            while not self._stopped.is_set():
                self._take(peer, channel.receive())
        except (DicoreError, OSError) as error:
            if not self._stopped.is_set():
                _LOG.info("node %d lost node %d: %s", self.node, peer.node, error)
        finally:
            with self._changed:
                self._peers.pop(id(peer), None)
                self._changed.notify_all()
            self.dropped += peer.close()

    def _take(self, peer: _Peer, message: object) -> None:
        if not isinstance(message, Mapping):
            return
        if "topics" in message:
            with self._changed:
                peer.topics = frozenset(map(str, message["topics"]))
                self._changed.notify_all()
        elif message.get("topic") in self._topics:
            item = str(message["topic"]), message["data"].tobytes()
            while not (self._stopped.is_set() or self._leaving):
                with contextlib.suppress(queue.Full):
                    self._arrived.put(item, timeout=0.2)
                    return

    def _tell_topics(self) -> None:
        with self._changed:
            peers = list(self._peers.values())
        for peer in peers:
            peer.put_topics(lambda: self._topics)

    def _end_recv(self) -> None:
        """Lets `recv` raise, also if the queue is full."""
        while True:
            with contextlib.suppress(queue.Full):
                self._arrived.put_nowait(_END)
                return
            with contextlib.suppress(queue.Empty):
                self._arrived.get_nowait()


class _Peer:
    """A connected process: its topics, and the messages that wait to be sent."""

    def __init__(self, channel: Channel, size: int, *, dialed: bool) -> None:
        self._channel, self.dialed = channel, dialed
        self.node = int(channel.peer.get("node", -1))
        self.topics: frozenset[str] = frozenset()
        self._waiting: list[Any] = []
        self._size = size
        self._state = threading.Condition()
        self._open, self._busy = True, False

    def put(self, message: object) -> bool:
        """Adds a message; blocks while the queue is full; returns False if the peer is lost."""
        with self._state:
            limit = 10.0
            while not self._state.wait_for(self._has_room, limit):
                _LOG.warning("waiting for node %d, which does not read its messages", self.node)
                limit = 60.0
            if not self._open:
                return False
            self._waiting.append(message)
            self._state.notify_all()
            return True

    def put_topics(self, topics: Callable[[], frozenset[str]]) -> None:
        """Tells the peer the topics of this process, before what waits."""
        with self._state:
            rest = [each for each in self._waiting if "topics" not in each]
            self._waiting[:] = [{"topics": sorted(topics())}, *rest]
            self._state.notify_all()

    def _has_room(self) -> bool:
        return len(self._waiting) < self._size or not self._open

    def write(self) -> None:
        """Sends what waits, and a sign of life every second, until the connection ends."""
        while True:
            with self._state:
                self._busy = False
                self._state.notify_all()
                self._state.wait_for(lambda: self._waiting or not self._open, _BEAT_S)
                if not self._open:
                    return
                message = self._waiting.pop(0) if self._waiting else {"beat": True}
                self._busy = True
            try:
                self._channel.send(message)
            except DicoreError:  # what the peer has sent before may still be read
                with self._state:
                    self._open = False
                    self._state.notify_all()
                return

    def finish(self, timeout: float) -> None:
        """Waits until everything is sent; sends nothing afterwards."""
        with self._state:
            self._state.wait_for(
                lambda: not self._open or (not self._waiting and not self._busy), timeout
            )
            self._open = False
            self._state.notify_all()
        self._channel.end_sending()

    def close(self) -> int:
        """Ends the connection; returns the number of messages that were not sent."""
        with self._state:
            self._open = False
            left = sum("topic" in each for each in self._waiting)
            self._waiting.clear()
            self._state.notify_all()
        self._channel.close()
        return left


def _as_array(data: bytes) -> object:
    import numpy as np

    return np.frombuffer(data, np.uint8)
