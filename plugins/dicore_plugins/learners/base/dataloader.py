"""Batches for `BaseLearner.start`: loaded on demand or prefetched in one thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

POLL_S = 0.05
"""Interval of the check whether the loader was closed."""


class Dataloader:
    """Returns the batches of `source()`, until it returns None.

    The source runs in a separate thread, so that a blocking source cannot block `close`.

    Args:
        source: Returns one batch, or None at the end.
        ahead: Batches to prefetch; 0: load each batch on demand.
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
            if not self._demand.acquire(timeout=POLL_S):
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
        """Returns the next batch; None if the source has ended or the loader was closed.

        Raises:
            Exception: the source raised it; the traceback is the source's.
        """
        self._demand.release()
        while not self._closed.is_set():
            try:
                batch, error = self._batches.get(timeout=POLL_S)
            except queue.Empty:
                continue
            if error is not None:
                raise error
            return batch
        return None

    def close(self) -> None:
        """Stops loading without waiting for the source; the thread ends when the source returns."""
        self._closed.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=4 * POLL_S)
