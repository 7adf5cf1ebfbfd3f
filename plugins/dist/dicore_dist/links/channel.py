"""Connections between processes that share a token: both sides prove it, every frame is sealed.

A connection starts with two hellos (version, id of the node, a random nonce) and two proofs, HMACs
of both nonces. After it, each frame carries an HMAC over its number and content with a key of this
connection and direction: frames that were changed, repeated or recorded elsewhere are refused.
Before the proof, a peer can send at most 4 KiB.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import socket
import struct
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dicore import __version__
from dicore.errors import UsageError
from dicore_dist.links.errors import AuthenticationError, PeerError
from dicore_plugins.messages import PREFIX, FrameError, decode, encode, lengths

__all__ = ["Channel", "connect", "listen", "parsed", "token_of"]

PROTOCOL: Final = 1
TOKEN_VARIABLE: Final = "DICORE_TOKEN"  # noqa: S105 - the name of a variable
SILENCE_S: Final = 5.0
"""Seconds without a byte after which a peer counts as lost; peers send a frame every second."""

_HANDSHAKE_S: Final = 5.0
_SMALL: Final = 4096
_SEAL_SIZE: Final = 32
_COUNTER: Final = struct.Struct("!Q")


def token_of(given: str | None = None) -> str:
    """Returns the token given, else that of `DICORE_TOKEN`; "" if there is none."""
    return given or os.environ.get(TOKEN_VARIABLE, "")


class Channel:
    """One connection; `send` and `receive` may run in two threads.

    Args:
        sock: A connected socket, which the channel closes.
        token: The shared token.
        node: Id of this process, told to the peer.
        dialed: This side made the connection.
        silence_s: Seconds without a byte after which the peer counts as lost.

    Attributes:
        peer: What the peer said of itself: `node`, `dicore`, and what it added.

    Raises:
        AuthenticationError: the peer has another token or version.
        PeerError: the connection ended.
    """

    def __init__(
        self,
        sock: socket.socket,
        token: str,
        node: Mapping[str, object],
        *,
        dialed: bool,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._socket = sock
        self._sent = self._received = 0
        self._keys = (b"", b"")
        self._deadline: float | None = time.monotonic() + _HANDSHAKE_S
        try:
            sock.settimeout(_HANDSHAKE_S)
            if sock.family != getattr(socket, "AF_UNIX", None):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.peer = self._shake(token.encode(), dict(node), dialed)
            sock.settimeout(silence_s)
            self._deadline = None
        except BaseException:
            self.close()
            raise

    def send(self, message: object) -> None:
        """Sends one message; blocks while the peer reads nothing."""
        self.send_pieces(encode(message))

    def send_pieces(self, pieces: list[bytes | memoryview]) -> None:
        """Sends an encoded message."""
        seal = self._seal(self._keys[0], self._sent)
        for piece in pieces:
            seal.update(piece)
        self._sent += 1
        try:
            for piece in (*_joined(pieces), seal.digest()):
                self._send_all(piece)
        except OSError as error:
            raise PeerError(f"the connection ended: {error}") from error

    def receive(self) -> object:
        """Returns the next message.

        Raises:
            FrameError: the bytes are no message of this peer; close the channel.
            PeerError: the connection ended, or the peer was silent for too long.
        """
        return self._receive(sealed=True)

    def end_sending(self) -> None:
        """Tells the peer that nothing follows; what was sent before still arrives."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Ends the connection; later calls do nothing.

        What the peer has not read yet may be lost, if it has sent something that was not read here.
        """
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _check_deadline(self) -> None:
        """Limits each wait of the handshake to what is left of its time."""
        if self._deadline is None:
            return
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise PeerError("the peer took too long to prove its token")
        with contextlib.suppress(OSError):
            self._socket.settimeout(left)

    def _send_all(self, data: bytes | memoryview) -> None:
        """Sends everything; as long as the peer is connected, a full socket is waited for."""
        view = memoryview(data).cast("B")
        while view:
            self._check_deadline()
            with contextlib.suppress(TimeoutError):
                view = view[self._socket.send(view) :]

    def _receive(self, *, sealed: bool) -> Any:
        most = {} if sealed else {"max_header": _SMALL, "max_body": 0}
        prefix = bytes(self._exactly(PREFIX.size))
        header_size, body_size = lengths(prefix, **most)
        header, body = self._exactly(header_size), self._exactly(body_size)
        if sealed:
            seal = self._seal(self._keys[1], self._received)
            for piece in (prefix, header, body):
                seal.update(piece)
            if not hmac.compare_digest(seal.digest(), bytes(self._exactly(_SEAL_SIZE))):
                raise FrameError("a frame has the wrong seal")
            self._received += 1
        return decode(header, body)

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            self._check_deadline()
            try:
                count = self._socket.recv_into(view)
            except TimeoutError:
                raise PeerError("the peer is silent") from None
            except OSError as error:
                raise PeerError(f"the connection ended: {error}") from error
            if not count:
                raise PeerError("the peer closed the connection")
            view = view[count:]
        return data

    def _seal(self, key: bytes, number: int) -> Any:
        return hmac.new(key, _COUNTER.pack(number), "sha256")

    def _shake(self, token: bytes, node: dict[str, object], dialed: bool) -> dict[str, Any]:
        """Exchanges hellos and proofs; returns the peer's hello."""
        nonce = secrets.token_hex(16)
        mine = {**node, "dicore": __version__, "protocol": PROTOCOL, "nonce": nonce}
        if dialed:
            self._send_open(mine)
        theirs = self._receive_open()
        if refused := theirs.get("refused"):
            raise AuthenticationError(str(refused)[:500])
        if (problem := _problem(theirs)) is not None:
            if not dialed:
                with contextlib.suppress(PeerError):
                    self._send_open({"refused": problem})
            raise AuthenticationError(problem, hint="install the same version of dicore on both")
        if not dialed:
            self._send_open(mine)
        nonces = (mine, theirs) if dialed else (theirs, mine)
        said = "|".join(str(each["nonce"]) for each in nonces).encode()
        proofs = [
            hmac.digest(token, name + said, "sha256").hex() for name in (b"dial|", b"listen|")
        ]
        keys = [hmac.digest(token, name + said, "sha256") for name in (b"there|", b"back|")]
        self._keys = (keys[0], keys[1]) if dialed else (keys[1], keys[0])
        own, other = proofs if dialed else reversed(proofs)
        self._prove(own, other, dialed)
        return theirs

    def _prove(self, own: str, other: str, dialed: bool) -> None:
        """The side that dialed proves first: who has no token learns nothing from the other."""
        if dialed:
            self._send_open({"proof": own})
        answer = self._receive_open()
        if refused := answer.get("refused"):
            raise AuthenticationError(str(refused)[:500], hint=_SAME_TOKEN)
        if not hmac.compare_digest(str(answer.get("proof", "")).encode(), other.encode()):
            text = "the other process has another token"
            if not dialed:
                with contextlib.suppress(PeerError):
                    self._send_open({"refused": text})
            raise AuthenticationError(text, hint=_SAME_TOKEN)
        if not dialed:
            self._send_open({"proof": own})

    def _send_open(self, message: dict[str, object]) -> None:
        try:
            for piece in _joined(encode(message)):
                self._send_all(piece)
        except OSError as error:
            raise PeerError(f"the connection ended: {error}") from error

    def _receive_open(self) -> dict[str, object]:
        message = self._receive(sealed=False)
        if not isinstance(message, dict):
            raise FrameError(f"expected a hello, got a {type(message).__name__}")
        return message


_SAME_TOKEN = f"set {TOKEN_VARIABLE} to the same text in both processes"


def _problem(hello: Mapping[str, Any]) -> str | None:
    """Returns why a peer is refused by what it says of itself."""
    if hello.get("protocol") != PROTOCOL or hello.get("dicore") != __version__:
        theirs = str(hello.get("dicore"))[:40]
        return f"versions differ: one process runs dicore {__version__}, the other {theirs}"
    if not isinstance(hello.get("nonce"), str) or len(hello["nonce"]) != 32:
        return "the hello has no nonce"
    return None


def _joined(pieces: list[bytes | memoryview]) -> list[bytes | memoryview]:
    """Joins small pieces, so that a short message is one packet."""
    small = sum(memoryview(piece).nbytes for piece in pieces)
    return [b"".join(pieces)] if small <= 1 << 16 else pieces


def listen(address: str) -> socket.socket:
    """Returns a socket that listens at `tcp://host:port` (0: any free port) or `ipc:///path`.

    Raises:
        PeerError: the port is in use, or the host is not of this machine.
        UsageError: this is not an address.
    """
    family, where = parsed(address)
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(where)
        made.listen(64)
    except OSError as error:
        made.close()
        raise PeerError(
            f"cannot listen at {address}: {error.strerror or error}",
            hint="choose another port, or 0 for any free one",
        ) from error
    return made


def address_of(sock: socket.socket) -> str:
    """Returns the address at which a listening socket is reached."""
    name = sock.getsockname()
    return f"ipc://{name}" if isinstance(name, str) else f"tcp://{name[0]}:{name[1]}"


def connect(address: str, timeout: float = _HANDSHAKE_S) -> socket.socket:
    """Returns a socket connected to `tcp://host:port` or `ipc:///path`; raises as `listen`."""
    family, where = parsed(address)
    made = socket.socket(family, socket.SOCK_STREAM)
    made.settimeout(timeout)
    try:
        made.connect(where)
    except OSError as error:
        made.close()
        raise PeerError(f"no process answers at {address}: {error.strerror or error}") from error
    return made


def parsed(address: str) -> tuple[int, Any]:
    """Returns family and place of `tcp://host:port` or `ipc:///path`.

    Raises:
        UsageError: this is not an address.
    """
    protocol, _, rest = address.partition("://")
    host, _, port = rest.rpartition(":")
    if sys.platform != "win32" and protocol == "ipc" and rest and Path(rest).is_absolute():
        return socket.AF_UNIX, rest
    if protocol == "tcp" and host and port.isdecimal() and int(port) < 1 << 16:
        return socket.AF_INET, (host, int(port))
    raise UsageError(
        f"not an address: {address!r}", hint="write tcp://host:port or ipc:///path/of/a/socket"
    )
