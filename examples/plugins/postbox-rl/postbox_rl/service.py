"""The service: takes metrics by HTTP and keeps them in a store.

It listens on this machine alone, unless told otherwise; with a token, nobody else may write or
read. What it receives is data: JSON of a limited size, stored by parameterized SQL.
"""

from __future__ import annotations

import hmac
import json
import math
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from postbox_rl.logger import MOST_BYTES
from postbox_rl.store import Store

__all__ = ["Service"]

_PATIENCE_S: Final = 10.0


class Service(ThreadingHTTPServer):
    """Serves a store.

    Args:
        store: Where metrics are kept.
        host: Address to listen on.
        port: Port to listen on; 0: a free one.
        token: What requests must know; "": nothing.
    """

    daemon_threads = True

    def __init__(
        self, store: Store, *, host: str = "127.0.0.1", port: int = 0, token: str = ""
    ) -> None:
        super().__init__((host, port), _Handler)
        self.store, self._token = store, token

    @property
    def url(self) -> str:
        """The address, as the logger takes it."""
        return f"http://{self.server_address[0]!s}:{self.server_port}"

    def allows(self, given: str) -> bool:
        """Returns whether the header of a request has the token."""
        expected = f"Bearer {self._token}".encode()
        return not self._token or hmac.compare_digest(given.encode(), expected)


class _Handler(BaseHTTPRequestHandler):
    server: Service
    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE_S  # a peer that says nothing keeps no thread

    def do_POST(self) -> None:
        """Stores entries: `POST /entries {"run": …, "entries": […]}`."""
        body = self._body()
        if body is None:
            return
        try:
            told = json.loads(body)
            self.server.store.add(str(told["run"]), list(told["entries"]))
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
            self._answer(
                HTTPStatus.BAD_REQUEST, "expected the entries of a run, as the logger posts"
            )
            return
        self._answer(HTTPStatus.NO_CONTENT)

    def do_GET(self) -> None:
        """Lists the runs: `GET /runs`."""
        if not self.server.allows(self.headers.get("Authorization", "")):
            self._answer(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong")
        elif self.path != "/runs":
            self._answer(HTTPStatus.NOT_FOUND, "GET /runs, POST /entries")
        else:
            runs = [
                {name: _plain(each[name]) for name in each} for each in self.server.store.runs()
            ]
            self._answer(HTTPStatus.OK, json.dumps(runs, allow_nan=False))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - of the base class
        """Prints nothing: each run would print a line per second."""

    def _body(self) -> bytes | None:
        """Returns the body of a request that may be read; answers others."""
        size = self.headers.get("Content-Length", "")
        self.close_connection = True  # until the body was read: what follows is no request
        if not self.server.allows(self.headers.get("Authorization", "")):
            self._answer(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong")
        elif self.path != "/entries":
            self._answer(HTTPStatus.NOT_FOUND, "GET /runs, POST /entries")
        elif not size.isdecimal():
            self._answer(HTTPStatus.LENGTH_REQUIRED, "say Content-Length")
        elif len(size) > len(str(MOST_BYTES)) or int(size) > MOST_BYTES:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MOST_BYTES} bytes")
        else:
            body = self.rfile.read(int(size))
            self.close_connection = False
            return body
        return None

    def _answer(self, status: HTTPStatus, text: str = "") -> None:
        body = text.encode()
        self.send_response(status)
        if status != HTTPStatus.NO_CONTENT:
            kind = "application/json" if status == HTTPStatus.OK else "text/plain"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def _plain(value: object) -> object:
    """Returns inf as text: JSON has none."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
