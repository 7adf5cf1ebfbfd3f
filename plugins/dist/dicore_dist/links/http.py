"""Requests and responses over HTTP, signed by a shared token; the content is plain data.

Headers are signed together with the length and the digest of the body, so a stranger is refused
before a body is read. A signature names the process that shall answer (by an id of its start, which
a `hello` returns) and the time on that process's clock: what was recorded is refused by any other
process, by the next process at the same address, and a second time by the same one.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from dicore import __version__
from dicore.errors import DicoreError, UsageError
from dicore_dist.links.channel import TOKEN_VARIABLE, token_of
from dicore_dist.links.door import Door, Head
from dicore_dist.links.errors import AuthenticationError, PeerError, RemoteTaskError, failure_of
from dicore_dist.links.wire import head_of, read_body, read_head, send, size_of_body
from dicore_plugins.messages import FrameError, pack, unpack

__all__ = ["HttpTransport"]

_SIGNATURE: Final = "X-Dicore-Signature"
_NUMBER: Final = "X-Dicore-Request"
_STAMP: Final = "X-Dicore-Stamp"
_VERSION: Final = "X-Dicore-Version"
_DIGEST: Final = "X-Dicore-Digest"
_HELLO: Final = "hello"
_REMEMBERED: Final = 512
_KEEP_S: Final = 120.0
"""Seconds for which the number of an answered request is known."""
_WINDOW_S: Final = 30.0
"""Seconds for which a signature is valid; those that were used are known for as long."""
_CONNECT_S: Final = 5.0
_HELLO_S: Final = 20.0
_CLOSE_S: Final = 4.0
_RETRY_S: Final = (0.1, 0.4, 1.6)
"""Waits before a request whose connection was cut is sent again, with the same number."""
_MOST_TEXT: Final = 4096
_MOST_S: Final = 1e6
"""Limit of a request without one."""

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class _StaleError(AuthenticationError):
    """The signature is for another start of the process, another time, or was used before."""


class HttpTransport:
    """Serves and asks by HTTP; implements `ITransport`.

    Each request and response carries an HMAC by the shared token; others are refused before their
    body is read. A request that arrives twice is answered once.

    Args:
        host: Name or address of this machine at which others reach it; others than the loopback
            interface only if you say so.
        port: Port; 0: any free one.
        peer: `host:port` of the process that `request` asks; "": this process only answers.
        token: The shared token; "": that of the variable `DICORE_TOKEN`.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 0, peer: str = "", token: str = ""
    ) -> None:
        self._host, self._port, self._peer = host, port, peer
        self._token = token_of(token).encode()
        self._answers: dict[str, Answer] = {}
        self._given: OrderedDict[str, _Given] = OrderedDict()
        self._used: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()
        self._door: Door | None = None
        self._start, self._clock = secrets.token_hex(16), _Clock()
        self._bound = 0

    @property
    def port(self) -> int:
        """The port at which this process answers; 0 before `serve`."""
        return self._bound

    @property
    def address(self) -> str:
        """`host:port` at which others reach this process."""
        return f"{self._host}:{self.port}"

    def serve(self, name: str, answer: Answer) -> None:
        """Calls `answer` for each request of this name; its errors are returned as text.

        Raises:
            PeerError: the port is in use, or the host is not of this machine.
            UsageError: there is no token.
        """
        self._need_token()
        self._answers[name] = answer
        if self._door is None:
            self._door = self._listen()

    def request(
        self, name: str, data: Mapping[str, object], timeout: float | None = None
    ) -> Mapping[str, object]:
        """Sends a request and returns the response.

        If the connection is cut, the same request is sent again; its peer answers it once.

        Raises:
            PeerError: the process is not reached, or did not answer in time.
            RemoteTaskError: it answered with an error; the text is that of the error.
            AuthenticationError: it has another token.
        """
        self._need_token()
        body, number = pack(dict(data)), secrets.token_hex(16)
        waits = [*_RETRY_S]
        while True:
            try:
                content = self._asked(name, number, body, timeout)
                break
            except (PeerError, _StaleError) as error:
                again = isinstance(error, _StaleError) or error.context.get("cut")
                if not (waits and again):
                    raise
                self._clock = _Clock()  # perhaps another process answers there by now
                time.sleep(waits.pop(0))
        if "error" in content:
            raise RemoteTaskError.of(content)
        result: Mapping[str, Any] = content["result"]
        return result

    def close(self) -> None:
        """Stops to serve, after the answers that are being given (4 s); later calls do nothing."""
        if self._door is not None:
            self._door.close(_CLOSE_S)

    # ---- the side that asks

    def _asked(self, name: str, number: str, body: bytes, timeout: float | None) -> Any:
        """Sends a request, after a hello if this process has not greeted the other one yet."""
        clock = self._clock
        if not clock.start:
            limit = _HELLO_S if timeout is None else timeout
            hello = self._exchange(_HELLO, secrets.token_hex(16), b"", _Clock(), limit)
            clock = _Clock(str(hello["start"]), float(hello["now"]) - time.monotonic())
            self._clock = clock
        return self._exchange(name, number, body, clock, timeout)

    def _exchange(
        self, name: str, number: str, body: bytes, clock: _Clock, timeout: float | None
    ) -> Any:
        host, _, port = self._peer.rpartition(":")
        headers = {_NUMBER: number, _STAMP: clock.stamp(), _VERSION: __version__}
        headers |= self._seal(name, headers, body)
        head = head_of(f"POST /{name} HTTP/1.1", {"Host": self._peer, **headers}, len(body))
        try:
            made = socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S)
        except (OSError, ValueError, OverflowError) as error:
            raise PeerError(
                f"no process answers at {self._peer}: {type(error).__name__}",
                hint="is the process running, and are host and port right?",
                context={"silent": isinstance(error, TimeoutError)},
            ) from error
        with made:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            limit = time.monotonic() + (_MOST_S if timeout is None else timeout)
            try:
                send(made, head, body)
            except PeerError as error:  # it may have refused what it has not read
                if not error.context.get("cut"):
                    raise
            return self._answered(made, name, number, limit, timeout)

    def _answered(
        self, made: socket.socket, name: str, number: str, limit: float, timeout: float | None
    ) -> object:
        """Reads a response."""
        try:
            first, headers, rest = read_head(made, limit)
        except PeerError as error:
            if error.context.get("cut"):
                context = {"cut": True}
                raise PeerError(f"{self._peer} cut the connection", context=context) from error
            text = f"{self._peer} did not answer '{name}' within {timeout} s"
            raise PeerError(text, context={"silent": True}) from error
        status = first.split(" ")[1:2]
        if status in (["403"], ["409"]):
            text = _text(read_body(made, rest, min(size_of_body(headers), _MOST_TEXT)))
            kind = AuthenticationError if status == ["403"] else _StaleError
            hint = f"set {TOKEN_VARIABLE} to the same text, and use one version of dicore"
            raise kind(f"{self._peer}: {text}", hint=hint)
        if not self._is_signed(f"answer {name}", {**headers, _NUMBER.lower(): number}):
            raise AuthenticationError(
                f"{self._peer}: the answer to '{name}' is not signed",
                hint="does another program listen there?",
            )
        body = read_body(made, rest, size_of_body(headers))
        _check_digest(body, headers)
        return unpack(body)

    # ---- the side that answers

    def _listen(self) -> Door:
        try:
            made = socket.create_server((self._host, self._port), backlog=128)
        except (OSError, OverflowError) as error:
            raise PeerError(
                f"cannot listen at {self._host}:{self._port}: {getattr(error, 'strerror', error)}",
                hint="choose another port, or 0 for any free one",
            ) from error
        self._bound = int(made.getsockname()[1])
        return Door(made, f"the process at {self.address}", self._check, self._respond, _refusal)

    def _respond(self, made: socket.socket, head: Head) -> None:
        """Reads the body of a request and answers it."""
        with contextlib.suppress(PeerError):
            self._respond_to(made, head, _name_of(head))

    def _respond_to(self, made: socket.socket, head: Head, name: str) -> None:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number, content = head.headers[_NUMBER.lower()], {}
        try:
            body = read_body(made, head.rest, size_of_body(head.headers))
            _check_digest(body, head.headers)
            if name == _HELLO:
                content = {"start": self._start, "now": time.monotonic()}
            else:
                content = self._once(number, name, unpack(body))
        except FrameError as error:
            content = {"error": str(error)}
        answer = pack(content)
        seal = self._seal(f"answer {name}", {_NUMBER: number}, answer)
        send(made, head_of("HTTP/1.1 200 -", seal, len(answer)), answer)

    def _check(self, head: Head) -> None:
        """Refuses a request whose headers are not signed.

        Raises:
            FrameError: it is too large.
            AuthenticationError: they are not, or for another process, or were used before.
        """
        name, headers = _name_of(head), head.headers
        size_of_body(headers)
        given = headers.get(_SIGNATURE.lower(), ""), headers.get(_NUMBER.lower(), "")
        if len(given[0]) != 64 or len(given[1]) != 32:
            raise AuthenticationError("the request is not signed")
        if not self._is_signed(name, headers):
            raise AuthenticationError("the request is signed by another token")
        theirs = headers.get(_VERSION.lower(), "")[:40]
        if theirs != __version__:
            text = f"versions differ: one process runs dicore {__version__}, the other {theirs}"
            raise AuthenticationError(text)
        if name != _HELLO:
            self._check_stamp(headers.get(_STAMP.lower(), ""))

    def _check_stamp(self, stamp: str) -> None:
        """Refuses a signature for another start or time, or that was used before."""
        start, _, rest = stamp.partition(":")
        said, _, nonce = rest.partition(":")
        now, age = time.monotonic(), _MOST_S
        if start != self._start:
            raise _StaleError("the request is for another start of this process")
        with contextlib.suppress(ValueError):
            age = now - float(said)
        if abs(age) > _WINDOW_S:
            raise _StaleError(f"the request is older than {_WINDOW_S:g} s")
        with self._lock:
            while self._used and next(iter(self._used.values())) < now - 2 * _WINDOW_S:
                self._used.popitem(last=False)
            if self._used.setdefault(nonce, now) != now:
                raise _StaleError("the request was sent before")

    def _once(self, number: str, name: str, data: object) -> dict[str, object]:
        """Answers a request; if it is repeated, by the same answer."""
        with self._lock:
            first = number not in self._given
            given = self._given.setdefault(number, _Given())
            self._forget()
        if first:
            try:
                given.content = self._answer(name, data)
            finally:
                given.ended_at = time.monotonic()
                given.ready.set()
        given.ready.wait()
        return given.content

    def _forget(self) -> None:
        """Forgets answers that were given long ago, but not the newest ones."""
        limit = time.monotonic() - _KEEP_S
        while len(self._given) > _REMEMBERED:
            number, given = next(iter(self._given.items()))
            if given.ended_at > limit:
                return
            del self._given[number]

    def _answer(self, name: str, data: Any) -> dict[str, Any]:
        answer = self._answers.get(name)
        if answer is None:
            return {"error": f"'{name}' is not served; expected {', '.join(self._answers)}"}
        try:
            result = {"result": dict(answer(data))}
            pack(result)
        except BaseException as error:  # also what would end a process: who asked waits for it
            return failure_of(error)
        return result

    # ---- both sides

    def _seal(self, name: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Returns the digest of a body, and the signature of the headers with it."""
        digest = sha256(body).hexdigest()
        said = {key.lower(): value for key, value in headers.items()}
        said |= {_DIGEST.lower(): digest, "content-length": str(len(body))}
        return {_DIGEST: digest, _SIGNATURE: self._signature(name, said)}

    def _is_signed(self, name: str, headers: Mapping[str, str]) -> bool:
        given = headers.get(_SIGNATURE.lower(), "")
        return hmac.compare_digest(given.encode(), self._signature(name, headers).encode())

    def _signature(self, name: str, headers: Mapping[str, str]) -> str:
        said = [headers.get(each, "") for each in _SIGNED]
        text = "|".join([name, *said])
        return hmac.new(self._token, text.encode("utf-8", "replace"), "sha256").hexdigest()

    def _need_token(self) -> None:
        if not self._token:
            raise UsageError(
                "requests between processes need a token",
                hint=f"set {TOKEN_VARIABLE} to the same text in all processes",
            )


_SIGNED: Final = tuple(
    each.lower() for each in (_NUMBER, _STAMP, _VERSION, "Content-Length", _DIGEST)
)
"""Headers that a signature covers."""


@dataclass(frozen=True)
class _Clock:
    """The clock of the process that is asked, as its hello told it."""

    start: str = ""
    ahead: float = 0.0

    def stamp(self) -> str:
        """Returns what makes a signature valid for one request of that process."""
        return f"{self.start}:{time.monotonic() + self.ahead:.3f}:{secrets.token_hex(16)}"


class _Given:
    """The answer to a request, once it is made."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.ended_at = float("inf")
        self.content: dict[str, Any] = {}


def _check_digest(body: bytes | bytearray, headers: Mapping[str, str]) -> None:
    """Refuses a body that is not the one whose digest was signed."""
    if sha256(body).hexdigest() != headers.get(_DIGEST.lower()):
        raise FrameError("the body was changed on its way")


def _refusal(error: DicoreError) -> bytes:
    """Returns the response to a request that is refused."""
    status = 400
    if isinstance(error, AuthenticationError):
        status = 409 if isinstance(error, _StaleError) else 403
    body = pack({"error": error.message})
    return head_of(f"HTTP/1.1 {status} -", {}, len(body)) + body


def _name_of(head: Head) -> str:
    """Returns the name of what is asked for."""
    return head.first.partition(" ")[2].partition(" ")[0].strip("/")


def _text(body: bytearray) -> str:
    try:
        return str(unpack(body).get("error"))[:500]
    except (FrameError, AttributeError):
        return "refused"
