"""Batches for `BaseLearner.start`: loaded on demand or prefetched in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from dicore.data import Batch

POLL_S = 0.05
"""Interval of the check whether the loader was closed."""

BatchT = TypeVar("BatchT")


class Dataloader(Generic[BatchT]):
    """Returns the batches of `source()` in the order of its calls, until it returns None.

    The source runs in separate threads, so that a blocking source cannot block `close`.

    Args:
        source: Returns one batch, or None at the end; several workers call it at the same time.
        ahead: Batches to prefetch; 0: load each batch on demand.
        workers: Number of threads.
        device: Device to move each `Batch` to; None: batches stay as they are.
    """

    def __init__(
        self,
        source: Callable[[], BatchT | None],
        ahead: int = 0,
        workers: int = 1,
        device: str | None = None,
    ) -> None:
        self._source = source
        self._device = device
        self._closed = threading.Event()
        self._demand = threading.Semaphore(ahead)
        self._changed = threading.Condition()
        self._results: dict[int, tuple[BatchT | None, BaseException | None]] = {}
        self._started = self._returned = 0
        self._threads = [
            threading.Thread(target=self._fetch, name="dicore-dataloader", daemon=True)
            for _ in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def _fetch(self) -> None:
        while not self._closed.is_set():
            if not self._demand.acquire(timeout=POLL_S):
                continue
            with self._changed:
                number = self._started
                self._started += 1
            batch: Any = None
            problem = None
            try:
                batch = self._source()
                if self._device is not None and isinstance(batch, Batch):
                    batch = batch.to(self._device, non_blocking=True)
            except BaseException as error:
                problem = error
            with self._changed:
                self._results[number] = batch, problem
                self._changed.notify_all()
            if batch is None:
                return

    def next_batch(self) -> BatchT | None:
        """Returns the next batch; None if the source has ended or the loader was closed.

        Raises:
            Exception: the source raised it; the traceback is the source's.
        """
        self._demand.release()
        with self._changed:
            while self._returned not in self._results:
                if self._closed.is_set():
                    return None
                self._changed.wait(POLL_S)
            batch, error = self._results[self._returned]
            if error is not None:
                raise error
            if batch is not None:  # the end stays the end
                del self._results[self._returned]
                self._returned += 1
            return batch

    def close(self) -> None:
        """Stops loading without waiting for the source; a thread ends when the source returns."""
        self._closed.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout=4 * POLL_S / len(self._threads))
