"""The logger: posts the metrics of a run to the service, from a thread of its own."""

from __future__ import annotations

import http.client
import json
import logging
import math
import os
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
TOKEN: Final = "POSTBOX_TOKEN"  # noqa: S105 - a name, no secret
"""Environment variable with the token of the service: secrets are no options."""


class Postbox:
    """Posts metrics to a service that `dicore postbox serve` runs.

    A service that does not answer neither slows nor stops the training: what it misses is dropped
    with one warning, and `log/metrics.jsonl` has it.

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
        self._waiting: deque[dict[str, Any]] = deque(maxlen=_MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._wake, self._ending = threading.Event(), threading.Event()
        self._lost = False

    def open(self, target: LogTarget) -> None:
        """Sets the run; the service forgets what it has of it after a checkpoint."""
        self._run = target.title or str(target.folder)
        if target.resumed_at is not None:
            self._post({"resumed_at": list(target.resumed_at)})

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

    def _post(self, entry: dict[str, Any]) -> None:
        self._waiting.append(entry)
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
            while self._waiting:
                some = [self._waiting[at] for at in range(min(len(self._waiting), _AT_ONCE))]
                if not self._send(connection, some):
                    break
                for _ in some:
                    self._waiting.popleft()
            if self._ending.is_set() and (not self._waiting or self._lost or _now() > until):
                connection.close()
                return

    def _send(self, connection: http.client.HTTPConnection, entries: list[dict[str, Any]]) -> bool:
        """Posts entries; returns whether the service has stored them."""
        headers = {"Content-Type": "application/json"}
        if token := os.environ.get(TOKEN):
            headers["Authorization"] = f"Bearer {token}"
        body = json.dumps({"run": self._run, "entries": entries})
        try:
            connection.request("POST", "/entries", body, headers)
            answer = connection.getresponse()
            said = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return self._failed(str(error) or type(error).__name__)
        if answer.status != http.client.NO_CONTENT:
            return self._failed(f"{answer.status} {said.strip()}")
        self._lost = False
        return True

    def _failed(self, reason: str) -> bool:
        if not self._lost:
            self._lost = True
            text = "postbox: %s:%d does not take metrics for now: %s; log/metrics.jsonl has them"
            _LOG.warning(text, self._host, self._port, reason)
        return False


def _now() -> float:
    return time.monotonic()
