"""Batches for a learner that runs by itself: in turn, or fetched ahead by one thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

POLL = 0.05
"""Seconds between looks at whether the loader was closed."""


class Dataloader:
    """Hands out what `source()` returns; None ends the stream.

    The source runs in a thread of its own, so that one that blocks cannot block `close`.

    Args:
        source: Returns one batch, or None when there is no more.
        ahead: Batches fetched before they are asked for; 0 fetches one at a time, on demand.
    """

    def __init__(self, source: Callable[[], Any], ahead: int = 0) -> None:
        self._source = source
        self._closed = threading.Event()
        self._demand: threading.Semaphore = threading.Semaphore(ahead)
        self._ahead = ahead
        self._batches: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue()
        self._thread = threading.Thread(target=self._fetch, name="dicore-dataloader", daemon=True)
        self._thread.start()

    def _fetch(self) -> None:
        while not self._closed.is_set():
            if not self._demand.acquire(timeout=POLL):
                continue
            try:
                batch = self._source()
            except BaseException as error:
                self._batches.put((None, error))
                return
            self._batches.put((batch, None))
            if batch is None:
                return

    def next_batch(self) -> Any:
        """Waits for a batch; None when the source has ended or the loader was closed.

        Raises:
            Exception: whatever the source raised, with its own traceback.
        """
        self._demand.release()
        while not self._closed.is_set():
            try:
                batch, error = self._batches.get(timeout=POLL)
            except queue.Empty:
                continue
            if error is not None:
                raise error
            return batch
        return None

    def close(self) -> None:
        """Ends the stream without waiting for the source; its thread ends when it returns."""
        self._closed.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=4 * POLL)
