"""Worker processes of one job: start, restart with back-off, and the end without leftovers."""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Final

from dicore.errors import DicoreError
from dicore_dist.coordinator.restarts import Restarts
from dicore_dist.links.errors import CODES, WorkerError
from dicore_registry import code_paths

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["Job", "Supervisor"]

_LOG = logging.getLogger("dicore.comm")
_GRACE_S: Final = 4.0
_POLL_S: Final = 0.5
_MOST_TEXT: Final = 20_000


@dataclass(frozen=True)
class Job:
    """What one worker process runs: `call(*args)`; both are pickled for the child process.

    Attributes:
        output: File with what it prints, for messages; "": it prints.
    """

    name: str
    call: Callable[..., Any]
    args: tuple[Any, ...] = ()
    output: str = ""


class _Worker:
    """A job with its present process."""

    def __init__(self, job: Job, context: Any) -> None:
        self.job, self._context = job, context
        self.done = self.is_replaced = False
        self.restart_at: float | None = None
        self._started_at = 0.0
        self.process: Any = None
        self._pipe: Connection | None = None

    def start(self) -> None:
        """Starts a process of the job."""
        self._pipe, theirs = self._context.Pipe(duplex=False)
        name, call, args = self.job.name, self.job.call, self.job.args
        given = theirs, call, args, code_paths.state()
        self.process = self._context.Process(target=_run, name=name, args=given)
        self.process.start()
        theirs.close()
        self.restart_at, self._started_at = None, time.monotonic()
        self.is_replaced = False

    @property
    def age(self) -> float:
        """Seconds since the process was started."""
        return time.monotonic() - self._started_at

    def error(self) -> tuple[str, tuple[str, str, int] | None] | None:
        """Returns how an ended process ended, with the traceback that it sent; None: it is done.

        Also returns message, hint and exit code, if the error was a `DicoreError`.
        """
        told: list[Any] | None = None
        with contextlib.suppress(OSError, EOFError):
            if self._pipe is not None and self._pipe.poll():
                told = json.loads(self._pipe.recv_bytes())
        code = self.process.exitcode
        if code == 0 and told == []:
            return None
        text, *rest = told or [""]
        known = (rest[0], rest[1], rest[2]) if rest else None
        ending = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        if self.is_replaced and code == -signal.SIGKILL:
            ending = "by SIGKILL, because it was silent"
        return f"{self.job.name} ended {ending}\n{text}".rstrip(), known


class Supervisor:
    """Runs jobs in processes until all have ended.

    Args:
        jobs: One process each.
        restarts: Says whether a process that failed is started again; the others go on meanwhile.
            None: the first failure ends all processes.
        startup_interval: Seconds between two starts.
        tells_errors: A process that ends with a `DicoreError` is not restarted: its error, which
            says what to change, is raised.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        restarts: Restarts | None = None,
        startup_interval: float = 0.0,
        tells_errors: bool = False,
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._workers = [_Worker(job, context) for job in jobs]
        self._restarts, self._startup_interval = restarts, startup_interval
        self._tells_errors = tells_errors
        self._ending = threading.Event()

    @property
    def pids(self) -> dict[str, int]:
        """Ids of the running processes, by name of the job."""
        found = {each.job.name: each.process for each in self._workers if each.process is not None}
        return {name: process.pid for name, process in found.items() if process.is_alive()}

    def run(self) -> None:
        """Starts all jobs and waits for their end; nothing is left running afterwards.

        Raises:
            WorkerError: a process failed and was not restarted; the text holds its traceback.
        """
        try:
            for index, worker in enumerate(self._workers):
                if index and self._startup_interval:
                    time.sleep(self._startup_interval)
                worker.start()
            while self._step():
                pass
        finally:
            self.stop()

    def _step(self) -> bool:
        """Waits for the next end or restart; returns whether anything is left to wait for."""
        now = time.monotonic()
        for worker in self._workers:
            if worker.restart_at is not None and worker.restart_at <= now:
                worker.start()
        running = {each.process.sentinel: each for each in self._workers if self._runs(each)}
        waiting = [each.restart_at for each in self._workers if each.restart_at is not None]
        if not running and not waiting:
            return False
        if self._ending.is_set():
            return False
        timeout = max(0.0, min(min(waiting) - now, _POLL_S)) if waiting else _POLL_S
        for sentinel in wait([*running], timeout):
            self._ended(running[sentinel])
        return True

    @staticmethod
    def _runs(worker: _Worker) -> bool:
        return worker.restart_at is None and not worker.done

    def _ended(self, worker: _Worker) -> None:
        worker.process.join()
        ending = worker.error()
        if ending is None:
            worker.done = True
            return
        text, known = ending
        if known is not None and self._tells_errors:
            told = WorkerError(f"{worker.job.name}: {known[0]}", hint=known[1])
            told.exit_code = known[2] if known[2] in CODES else WorkerError.exit_code
            raise told
        if self._restarts is None:
            raise WorkerError(text, hint="auto_recover=True restarts failed processes")
        wait_s, count = self._restarts.lost(worker.job.name), self._restarts.count(worker.job.name)
        if wait_s is None:
            hint = f"see {worker.job.output}" if worker.job.output else ""
            raise WorkerError(f"{text}, after {count - 1} restarts", hint=hint)
        worker.restart_at = time.monotonic() + wait_s
        _LOG.warning("%s; restart %d in %.1f s", text, count, wait_s)

    def replace(self, name: str, older_than: float = 0.0) -> None:
        """Kills the silent process of a job if it is older than some seconds: it is restarted."""
        for each in self._workers:
            if each.job.name == name and each.process is not None and each.age > older_than:
                each.is_replaced = True
                each.process.kill()

    def end(self) -> None:
        """Makes `run` in another thread end all processes; those that end by now are fine."""
        self._ending.set()

    def stop(self) -> None:
        """Ends all processes: SIGTERM, and SIGKILL for those that run on."""
        alive = [
            each.process
            for each in self._workers
            if each.process is not None and each.process.is_alive()
        ]
        for process in alive:
            process.terminate()
        end = time.monotonic() + _GRACE_S
        for process in alive:
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()


def _run(
    pipe: Connection, call: Callable[..., Any], args: tuple[Any, ...], may_import: Any
) -> None:
    """Runs a job in its process; sends the parent the traceback of an error, or that it is done.

    The exit code does not say so: a library may end the process with 0.
    """
    code_paths.restore(may_import)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its processes
    signal.signal(signal.SIGTERM, _terminated)
    threading.Thread(target=_end_with_parent, name="dicore-parent", daemon=True).start()
    told: list[str | int] = []
    try:
        call(*args)
    except SystemExit as error:
        if error.code:
            raise
    except BaseException as error:
        told = ["".join(traceback.format_exception(error))[-_MOST_TEXT:]]
        if isinstance(error, DicoreError):
            told += [error.message, error.hint, error.exit_code]
    with contextlib.suppress(OSError, ValueError):
        pipe.send_bytes(json.dumps(told).encode())
    if told:
        raise SystemExit(1)


def _terminated(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _end_with_parent() -> None:
    """Ends this process when its parent is gone, however that ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
