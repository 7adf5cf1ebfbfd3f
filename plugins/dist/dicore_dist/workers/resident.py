"""What comm learner and comm collector share: they serve tasks until they are closed."""

from __future__ import annotations

import abc
import os
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dicore.errors import ClosedError
from dicore_dist.links.master import Slave

__all__ = ["Resident"]


class Resident(abc.ABC):
    """Serves the tasks of a slave; a task may ask it to close, which then happens in a thread.

    Args:
        slave: Receives the tasks.

    Attributes:
        on_task: Called with the info of each task that begins.
    """

    def __init__(self, slave: Slave) -> None:
        self._slave = slave
        self.on_task: Callable[[Mapping[str, object]], None] = lambda info: None
        self._ended, self._closed = threading.Event(), threading.Event()
        self._closing, self._closer = threading.Lock(), threading.Thread()
        self._ended.set()
        self._turn, self._ends = threading.Lock(), 0
        self._log: Path | None = None

    @property
    def address(self) -> str:
        """`host:port` at which the coordinator reaches this process."""
        return self._slave.address

    @property
    def silent_s(self) -> float:
        """Seconds since the coordinator was heard, or since the start."""
        return self._slave.silent_s

    def start(self) -> None:
        """Starts to serve tasks."""
        self._slave.start()

    def close(self) -> None:
        """Ends the present task and stops to serve; returns when that is done, by whomever."""
        with self._closing:
            if not self._closed.is_set():
                self._note_end()
                self._end_task()
                self._slave.close()
                self._release()
                self._closed.set()
        if self._closer.is_alive() and self._closer is not threading.current_thread():
            self._closer.join(timeout=5)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is closed; returns whether it is.

        Raises:
            ConnectionError: nobody can reach it any more.
        """
        if self._slave.is_lost:
            raise ConnectionError(f"{self.address}: no task can reach this process any more")
        return self._closed.wait(timeout)

    def _noting(
        self, name: str, answer: Callable[[Mapping[str, Any]], Mapping[str, object]]
    ) -> Callable[[Mapping[str, Any]], Mapping[str, object]]:
        """Returns a function of a task that writes what it raises to the log of the process.

        Args:
            name: `learner` or `collector`.
            answer: The function.
        """

        def noted(data: Mapping[str, Any]) -> Mapping[str, object]:
            info = data.get("task_info")
            if info is not None:
                index = info.get("collector_index", 0) if name == "collector" else 0
                folder = info.get("folder")
                log = None if folder is None else Path(folder) / "log"
                self._log = log and log / f"{name}{index}" / "output.txt"
            try:
                return answer(data)
            except ClosedError:
                raise
            except BaseException as error:  # its caller is told the text alone
                self._note(error)
                raise

        return noted

    def _note(self, error: BaseException) -> None:
        """Appends the traceback of an error to the log, if the run folder is on this machine."""
        if self._log is not None and self._log.parents[2].is_dir():
            with suppress(OSError):
                self._log.parent.mkdir(parents=True, exist_ok=True)
                with self._log.open("a", encoding="utf-8") as file:
                    file.write("".join(traceback.format_exception(error)))

    def deal_with_get_resource(self, data: Mapping[str, object]) -> Mapping[str, object]:
        """Returns what this process offers."""
        cores = os.cpu_count() or 1
        return {"gpu": self._gpus(), "cpu": cores, "busy": not self._ended.is_set()}

    def _deal_with_close(self, data: Mapping[str, object]) -> None:
        """Ends the present task, at any time; with `shutdown`, closes too."""
        self._note_end()
        self._end_task()
        if data.get("shutdown"):
            self._closer = threading.Thread(target=self.close, name="dicore-close", daemon=True)
            self._closer.start()

    def _note_end(self) -> None:
        with self._turn:
            self._ends += 1
            self._ended.set()

    def _begin_task(self, ends: int) -> None:
        """Begins a task; `ends` is what `_ends` was when its start was asked for.

        Raises:
            ClosedError: it was ended meanwhile.
        """
        with self._turn:
            if self._ends != ends:
                raise ClosedError("the task was closed while it started")
            self._ended.clear()

    @abc.abstractmethod
    def _end_task(self) -> None:
        """Ends the present task."""

    @abc.abstractmethod
    def _release(self) -> None:
        """Closes what was kept from task to task."""

    def _gpus(self) -> int:
        return 0
