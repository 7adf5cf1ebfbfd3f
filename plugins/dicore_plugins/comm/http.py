"""Requests and responses over HTTP, signed by a shared token; the content is plain data."""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Final

from dicore import __version__
from dicore.errors import DicoreError, MissingDependencyError, UsageError
from dicore_plugins.comm.channel import TOKEN_VARIABLE, token_of
from dicore_plugins.comm.errors import AuthenticationError, FrameError, PeerError, RemoteTaskError
from dicore_plugins.comm.frames import pack, unpack

__all__ = ["HttpTransport"]

_LOG = logging.getLogger("dicore.comm")
_SIGNATURE: Final = "X-Dicore-Signature"
_NUMBER: Final = "X-Dicore-Request"
_VERSION: Final = "X-Dicore-Version"
_MOST_BYTES: Final = 256 << 20
_REMEMBERED: Final = 512
_CONNECT_S: Final = 5.0
_RETRY_S: Final = (0.1, 0.4, 1.6)
"""Waits before a request whose connection was cut is sent again, with the same number."""

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class HttpTransport:
    """Serves and asks by HTTP (Werkzeug and requests); implements `ITransport`.

    Each request and response carries an HMAC of its content by the shared token; others are refused
    before they are read. A request that arrives twice is answered once.

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
        missing = [name for name in ("requests", "werkzeug") if find_spec(name) is None]
        if missing:
            raise MissingDependencyError(
                f"HTTP between processes needs {', '.join(missing)}",
                hint="pip install 'dicore-plugins[comm]'",
            )
        self._host, self._port, self._peer = host, port, peer
        self._token = token_of(token).encode()
        self._answers: dict[str, Answer] = {}
        self._given: OrderedDict[str, _Given] = OrderedDict()
        self._lock = threading.Lock()
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def port(self) -> int:
        """The port at which this process answers; 0 before `serve`."""
        return 0 if self._server is None else int(self._server.port)

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
        if self._server is None:
            self._server = self._listen()
            self._thread = threading.Thread(
                target=self._server.serve_forever, args=(0.05,), name="dicore-http", daemon=True
            )
            self._thread.start()

    def request(
        self, name: str, data: Mapping[str, Any], timeout: float | None = None
    ) -> Mapping[str, Any]:
        """Sends a request and returns the response.

        If the connection is cut, the same request is sent again; its peer answers it once.

        Raises:
            PeerError: the process is not reached, or did not answer in time.
            RemoteTaskError: it answered with an error; the text is that of the error.
            AuthenticationError: it has another token.
        """
        self._need_token()
        body, number = pack(dict(data)), secrets.token_hex(16)
        headers = {
            _NUMBER: number,
            _VERSION: __version__,
            _SIGNATURE: self._sign(name, number, body),
        }
        for wait in (*_RETRY_S, None):
            response = self._sent(name, body, headers, timeout, last=wait is None)
            if response is not None or wait is None:
                break
            time.sleep(wait)
        return self._read(name, number, response)

    def _sent(
        self,
        name: str,
        body: bytes,
        headers: Mapping[str, str],
        timeout: float | None,
        *,
        last: bool,
    ) -> Any:
        """Sends a request; returns None if its connection was cut, unless it is the last try."""
        import requests

        try:
            with requests.Session() as session:
                session.trust_env = False  # no proxies between processes of one job
                return session.post(
                    f"http://{self._peer}/{name}",
                    data=body,
                    headers=headers,
                    timeout=(_CONNECT_S, timeout),
                    allow_redirects=False,
                )
        except requests.ReadTimeout as error:
            raise PeerError(
                f"{self._peer} did not answer '{name}' within {timeout} s", context={"silent": True}
            ) from error
        except requests.RequestException as error:
            if not last and _was_cut(error):
                return None
            raise PeerError(
                f"no process answers at {self._peer}: {type(error).__name__}",
                hint="is the process running, and are host and port right?",
                context={"silent": isinstance(error, requests.ConnectTimeout)},
            ) from error

    def close(self) -> None:
        """Stops to serve; later calls do nothing."""
        self._closed = True
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    # ---- the two sides

    def _listen(self) -> Any:
        import socket

        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):
            timeout = 30.0

            def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - its name
                _LOG.debug(message, *args)

        try:  # a socket of our own: the server would end the process if the port is in use
            probe = socket.create_server((self._host, self._port))
        except OSError as error:
            raise PeerError(
                f"cannot listen at {self._host}:{self._port}: {error.strerror or error}",
                hint="choose another port, or 0 for any free one",
            ) from error
        server = make_server(
            self._host, 0, self._respond, threaded=True, request_handler=Quiet, fd=probe.fileno()
        )
        probe.close()
        vars(server)["daemon_threads"] = False  # `close` waits for the answers that are being given
        return server

    def _respond(self, environ: Mapping[str, Any], start_response: Any) -> list[bytes]:
        status, number, name, content = 400, "", "", {"error": "not a request of dicore"}
        try:
            name = str(environ.get("PATH_INFO", "")).strip("/")
            number = str(environ.get("HTTP_X_DICORE_REQUEST", ""))
            data = self._checked(environ, name, number)
            status, content = 200, self._once(number, name, data)
        except AuthenticationError as error:
            status, content = 403, {"error": error.message}
        except (DicoreError, ValueError, OSError) as error:
            content = {"error": str(error)}
        body = pack(content)
        signed = self._sign(f"answer {name}", number, body) if status == 200 else ""
        headers = [("Content-Type", "application/octet-stream"), (_SIGNATURE, signed)]
        start_response(f"{status} -", [*headers, ("Content-Length", str(len(body)))])
        return [body]

    def _checked(self, environ: Mapping[str, Any], name: str, number: str) -> Any:
        """Reads a request, if its signature is right."""
        size = str(environ.get("CONTENT_LENGTH") or "0")
        given = str(environ.get("HTTP_X_DICORE_SIGNATURE", ""))
        if not size.isdecimal() or int(size) > _MOST_BYTES:
            raise FrameError(f"a request of {size[:20]} bytes is refused")
        if len(given) != 64 or len(number) != 32:
            raise AuthenticationError("the request is not signed")
        body = environ["wsgi.input"].read(int(size))
        if not hmac.compare_digest(given.encode(), self._sign(name, number, body).encode()):
            raise AuthenticationError("the request is signed by another token")
        theirs = str(environ.get("HTTP_X_DICORE_VERSION", ""))[:40]
        if theirs != __version__:
            text = f"versions differ: one process runs dicore {__version__}, the other {theirs}"
            raise AuthenticationError(text)
        return unpack(body)

    def _once(self, number: str, name: str, data: Any) -> dict[str, Any]:
        """Answers a request; if it is repeated, by the same answer."""
        with self._lock:
            first = number not in self._given
            given = self._given.setdefault(number, _Given())
            while len(self._given) > _REMEMBERED:
                self._given.popitem(last=False)
        if first:
            try:
                given.content = self._answer(name, data)
            finally:
                given.ready.set()
        given.ready.wait()
        return given.content

    def _answer(self, name: str, data: Any) -> dict[str, Any]:
        answer = self._answers.get(name)
        if answer is None:
            return {"error": f"'{name}' is not served; expected {', '.join(self._answers)}"}
        try:
            result = {"result": dict(answer(data))}
            pack(result)
        except Exception as error:
            text = error.message if isinstance(error, DicoreError) else str(error)
            return {"error": f"{type(error).__name__}: {text}"}
        return result

    def _read(self, name: str, number: str, response: Any) -> Mapping[str, Any]:
        body = response.content
        if response.status_code == 403:
            raise AuthenticationError(
                f"{self._peer}: {_text(body)}",
                hint=f"set {TOKEN_VARIABLE} to the same text, and use one version of dicore",
            )
        signed = self._sign(f"answer {name}", number, body)
        if not hmac.compare_digest(response.headers.get(_SIGNATURE, "").encode(), signed.encode()):
            raise AuthenticationError(
                f"{self._peer}: the answer to '{name}' is not signed",
                hint="does another program listen there?",
            )
        content = unpack(body)
        if "error" in content:
            raise RemoteTaskError(str(content["error"]))
        result: Mapping[str, Any] = content["result"]
        return result

    def _sign(self, name: str, number: str, body: bytes) -> str:
        return hmac.new(self._token, f"{name}|{number}|".encode() + body, "sha256").hexdigest()

    def _need_token(self) -> None:
        if not self._token:
            raise UsageError(
                "requests between processes need a token",
                hint=f"set {TOKEN_VARIABLE} to the same text in all processes",
            )


class _Given:
    """The answer to a request, once it is made."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.content: dict[str, Any] = {}


def _was_cut(error: BaseException) -> bool:
    """Returns whether a connection was made and then lost; what was sent may have arrived."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ConnectionResetError | BrokenPipeError | ConnectionAbortedError):
            return True
        if type(seen).__name__ in {"RemoteDisconnected", "IncompleteRead"}:
            return True
        reason = seen.args[0] if seen.args and isinstance(seen.args[0], Exception) else None
        seen = reason or seen.__cause__ or seen.__context__
    return False


def _text(body: bytes) -> str:
    try:
        return str(unpack(body).get("error"))[:500]
    except (FrameError, AttributeError):
        return "refused"
