"""Serves the board on this machine until it is interrupted."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from dicore.errors import UsageError

__all__ = ["HOST", "listen", "make_server", "serve"]

HOST: Final = "127.0.0.1"
_FIRST_PORT: Final = 8310
_MOST_CONNECTIONS: Final = 64
_REQUEST_S: Final = 10.0
"""Seconds in which the request of a new connection must be there."""


def listen(port: int | None = None) -> socket.socket:
    """Returns a socket on 127.0.0.1 that accepts connections.

    Args:
        port: Its port; None: 8310, or any free one if that is in use.

    Raises:
        UsageError: the port is in use.
    """
    for wanted in (_FIRST_PORT, 0) if port is None else (port,):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, wanted))
            listener.listen(128)
        except OSError as error:
            listener.close()
            problem = error.strerror or str(error)
        else:
            return listener
    raise UsageError(
        f"port {port} on {HOST} cannot be used: {problem}", hint="leave --port out for a free one"
    )


class _Connection(H11Protocol):
    """Ends connections that ask for nothing, which would keep others out.

    A new connection beyond the limit ends the oldest one that is idle, whose browser opens another.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ends this connection later, unless its request comes."""
        idle = [each for each in self.connections if getattr(each, "is_idle", False)]
        if len(self.connections) >= _MOST_CONNECTIONS and idle:
            oldest = min(idle, key=lambda each: getattr(each, "began", 0.0))
            oldest.transport.close()
            self.connections.discard(oldest)  # it is lost a moment later
        super().connection_made(transport)
        self.began = self.loop.time()
        self.loop.call_later(_REQUEST_S, self._end_if_silent)

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _end_if_silent(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None and not self.transport.is_closing():
            self.transport.close()


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Returns a server that writes nothing and ends at once when it is interrupted.

    Args:
        app: What answers the requests.
    """
    return uvicorn.Server(
        uvicorn.Config(
            app, http=_Connection, ws="none", loop="asyncio", lifespan="off",
            log_config=None, log_level="critical", access_log=False,
            server_header=False, date_header=False, proxy_headers=False,
            limit_concurrency=2 * _MOST_CONNECTIONS, timeout_keep_alive=10,
            timeout_graceful_shutdown=1,
        )
    )  # fmt: skip


def serve(app: ASGIApp, listener: socket.socket) -> None:
    """Answers requests until Ctrl-C.

    Args:
        app: What answers them.
        listener: Where they come; it is closed afterwards.
    """
    try:
        with suppress(KeyboardInterrupt):  # raised once more after the server has ended
            make_server(app).run(sockets=[listener])
    finally:
        listener.close()
