"""The logger: posts the metrics of a run to the service, from a thread of its own."""

from __future__ import annotations

import http.client
import json
import logging
import math
import os
import platform
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from dicore.errors import UsageError
from dicore.interfaces.logger import LogTarget

__all__ = ["Postbox"]

_LOG = logging.getLogger(__name__)
_MOST_WAITING: Final = 10_000
"""Entries that wait for a slow service; beyond, the oldest are dropped."""
_AT_ONCE: Final = 500
"""Entries of one request."""
_PAUSE_S: Final = 0.2
_REFUSED: Final = (http.client.BAD_REQUEST, http.client.REQUEST_ENTITY_TOO_LARGE)
MOST_BYTES: Final = 4 << 20
"""Size of the largest request that the service reads."""
TOKEN: Final = "POSTBOX_TOKEN"  # noqa: S105 - a name, no secret
"""Environment variable with the token of the service: secrets are no options."""


class Postbox:
    """Posts metrics to a service that `dicore postbox serve` runs.

    A service that does not answer neither slows nor stops the training: what it misses is dropped
    with one warning, and `log/metrics.jsonl` has it. So is an entry that it refuses; others follow.
    The run is named by its machine and its absolute path: two of one relative name are two.

    Args:
        url: Address of the service.
        close_s: Longest time in seconds that the end of the run waits for the service.
    """

    def __init__(self, *, url: str = "http://127.0.0.1:8471", close_s: float = 5.0) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise UsageError(
                f"url: expected http://HOST:PORT, got {url!r}", hint="http://127.0.0.1:8471"
            )
        self.close_s = close_s
        self._host, self._port = parts.hostname, parts.port or 80
        self._run = ""
        self._pending: list[dict[str, Any]] = []  # of the thread: taken out, not yet stored
        self._waiting: deque[dict[str, Any]] = deque(maxlen=_MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._wake, self._ending = threading.Event(), threading.Event()
        self._lost = False
        self._warned: set[str] = set()

    def open(self, target: LogTarget) -> None:
        """Sets the run; the service forgets what it has of it, or has after a checkpoint."""
        self._run = f"{platform.node()}:{target.folder.absolute().parent}"
        self._pending = [{"resumed_at": list(target.resumed_at or (-1, -1))}]
        if target.resumed_at is not None:
            self._start()

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Posts metrics by tag; JSON has no nan and inf, so these are texts."""
        if scalars:
            values = {
                tag: each if math.isfinite(each) else str(each) for tag, each in scalars.items()
            }
            self._post({"env_step": env_step, "train_iter": train_iter, "scalars": values})

    def log_text(self, text: str, *, channel: str = "run") -> None:
        """Ignores texts: the service stores only numbers."""

    def flush(self) -> None:
        """Wakes the thread; never waits for the service."""
        self._wake.set()

    def close(self) -> None:
        """Posts what waits, for `close_s` seconds at most; later calls do nothing."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ending.set()
            self._wake.set()
            thread.join(self.close_s)
            if (left := len(self._pending) + len(self._waiting)) and not self._lost:
                self._warn("is slow: it lacks the last %d entries", left)

    def _post(self, entry: dict[str, Any]) -> None:
        if len(self._waiting) == _MOST_WAITING and not self._lost:
            self._warn("is slow: it misses the oldest of %d entries that wait", _MOST_WAITING)
        self._waiting.append(entry)
        self._start()

    def _start(self) -> None:
        if self._thread is None and not self._ending.is_set():
            self._thread = threading.Thread(target=self._send_all, name="postbox", daemon=True)
            self._thread.start()

    def _send_all(self) -> None:
        """Sends what waits until the end of the run, and stops early if the service is away."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self.close_s)
        until = math.inf
        while True:
            self._wake.wait(_PAUSE_S)
            self._wake.clear()
            if self._ending.is_set() and until == math.inf:
                until = time.monotonic() + self.close_s
            self._send_waiting(connection)
            left = self._pending or self._waiting
            if self._ending.is_set() and (not left or self._lost or _now() > until):
                connection.close()
                return

    def _send_waiting(self, connection: http.client.HTTPConnection) -> None:
        """Sends what waits until the service fails; of a refused request, each half by itself."""
        size = _AT_ONCE
        while self._pending or self._waiting:
            while self._waiting and len(self._pending) < _AT_ONCE:
                self._pending.append(self._waiting.popleft())
            some = self._pending[:size]
            status, reason = self._answer(connection, some)
            if status == http.client.NO_CONTENT:
                self._lost = False
                del self._pending[: len(some)]
                size = min(2 * size, _AT_ONCE)
            elif status in _REFUSED and len(some) > 1:
                size = len(some) // 2
            elif status in _REFUSED:
                self._warn("refuses entries: %s", reason)
                del self._pending[:1]
            else:
                self._failed(reason)
                return

    def _answer(
        self, connection: http.client.HTTPConnection, entries: list[dict[str, Any]]
    ) -> tuple[int, str]:
        """Posts entries; returns the status, 0 without an answer, and what was said."""
        headers = {"Content-Type": "application/json"}
        if token := os.environ.get(TOKEN):
            headers["Authorization"] = f"Bearer {token}"
        body = json.dumps({"run": self._run, "entries": entries})
        if len(body) > MOST_BYTES:  # the service would hang up before it is sent
            return http.client.REQUEST_ENTITY_TOO_LARGE, f"{len(body)} bytes"
        try:
            connection.request("POST", "/entries", body, headers)
            answer = connection.getresponse()
            said = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return 0, str(error) or type(error).__name__
        return answer.status, f"{answer.status} {said.strip()}"

    def _failed(self, reason: str) -> None:
        if not self._lost:
            self._lost = True
            text = "postbox: %s:%d does not take metrics for now: %s; log/metrics.jsonl has them"
            _LOG.warning(text, self._host, self._port, reason)

    def _warn(self, text: str, about: object) -> None:
        if text not in self._warned:
            self._warned.add(text)
            what = f"postbox: %s:%d {text}; log/metrics.jsonl has all"
            _LOG.warning(what, self._host, self._port, about)


def _now() -> float:
    return time.monotonic()
