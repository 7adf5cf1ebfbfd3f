"""Refuses requests that do not come from the board's own page on this machine."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["LOCAL", "Guard"]

LOCAL: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Host names of this machine: not one that a website points here."""
_READS: Final = frozenset({"GET", "HEAD"})
_MOST_BODY_BYTES: Final = 64 << 10
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; media-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""What a browser lets the page do: it loads and sends nothing elsewhere, and runs no inline code.

Styles are inline where the library of the charts sets them.
"""


class Guard:
    """Lets requests for this machine pass, and adds the headers that bind the page.

    Args:
        app: What answers them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""

        async def bound(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        if scope["type"] != "http":
            return
        problem = _problem(scope["method"], Headers(scope=scope))
        app = self._app if problem is None else PlainTextResponse(problem, 403)
        await app(scope, receive, bound)


def _problem(method: str, headers: Headers) -> str | None:
    """Returns why a request is refused; None: it is not."""
    host = headers.get("host", "")
    if _name(host) not in LOCAL:
        return f"the board answers on {', '.join(sorted(LOCAL))} alone"
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return "asked for by another website"
    origin = headers.get("origin")
    if method in _READS:
        return None if origin in (None, f"http://{host}") else "asked for by another website"
    if origin != f"http://{host}":
        return "only the board's own page may change something"
    if headers.get("content-type", "").partition(";")[0] != "application/json":
        return "changes are sent as application/json"
    length = headers.get("content-length", "")
    if not length.isascii() or not length.isdigit() or int(length) > _MOST_BODY_BYTES:
        return "the request has no length, or is too long"
    return None


def _name(host: str) -> str:
    """Returns a Host header without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
