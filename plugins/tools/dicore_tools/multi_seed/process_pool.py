"""Trainings in separate processes, which end when their parent ends."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import wait
from typing import Any, Self

from dicore.console import chatter, is_quiet
from dicore.errors import DicoreError
from dicore.run.launch import Outcome, TrainRequest, described, launch
from dicore.run.signals import StopFlag, StopNow, stop_on_signals

__all__ = ["ProcessPool", "SeedRun", "stop_with_parent"]

_POLL_S = 0.2
"""Interval between two checks of the stop flag."""
_TIMEOUT_S = 10.0
"""A process that does not end within this time after SIGTERM is killed."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedRun:
    """Result of the run of one seed.

    Args:
        seed: The seed.
        folder: The run folder; None if the run failed.
        status: `done`, `interrupted` or `failed`.
        error: Error message; "" without an error.
        exit_code: Exit code that `dicore train` would have.
        result: `stop`, `train_iter`, `env_step`, `best_return`, `wall_s`.
    """

    seed: int
    folder: str | None = None
    status: str = "failed"
    error: str = ""
    exit_code: int = 0
    result: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, seed: int, outcome: Outcome) -> SeedRun:
        """Returns the result of a finished or interrupted training."""
        code = outcome.exit_code
        return cls(
            seed=seed,
            folder=str(outcome.run.folder),
            status="interrupted" if code else "done",
            exit_code=code,
            result=asdict(outcome.run.result),
        )

    @classmethod
    def failed(cls, seed: int, error: BaseException) -> SeedRun:
        """Returns the result of a failed training and logs the traceback."""
        _log.debug("seed %d failed", seed, exc_info=error)
        code = error.exit_code if isinstance(error, DicoreError) else 1
        return cls(seed=seed, error=described(error), exit_code=code)


class ProcessPool:
    """Runs trainings in processes, at most `jobs` at a time.

    The first SIGINT or SIGTERM makes all of them save and stop; the second one stops them at once.
    If this process is killed, they save and stop as well.

    Args:
        jobs: Maximum number of processes.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._spawn = multiprocessing.get_context("spawn")
        self._running: dict[Any, tuple[Any, TrainRequest]] = {}  # by connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Terminates the running processes."""
        for process, _request in self._running.values():
            process.terminate()
        for connection, (process, _request) in self._running.items():
            process.join(_TIMEOUT_S)
            if process.is_alive():
                process.kill()
                process.join()
            connection.close()
            process.close()
        self._running.clear()

    def run(self, requests: Sequence[TrainRequest]) -> Iterator[tuple[TrainRequest, SeedRun]]:
        """Yields request and result of each training as soon as it ends.

        Args:
            requests: One request per run, each with a seed. Configs must be picklable.

        Raises:
            StopNow: a second signal arrived; `__exit__` ends the processes.
        """
        waiting = list(requests)
        flag = StopFlag()
        stopping = False
        with stop_on_signals(flag):
            while self._running or (waiting and not flag):
                while waiting and not flag and len(self._running) < self._jobs:
                    self._start(waiting.pop(0))
                if flag and not stopping:
                    stopping = True
                    for process, _request in self._running.values():
                        process.terminate()
                for connection in wait(list(self._running), _POLL_S):
                    request, run = self._finish(connection)
                    if run.status == "interrupted" and flag:
                        run = replace(run, exit_code=flag.exit_code)
                    yield request, run

    def _start(self, request: TrainRequest) -> None:
        ours, theirs = self._spawn.Pipe(duplex=False)
        process = self._spawn.Process(
            target=_train, args=(theirs, replace(request, own_process=False), is_quiet())
        )
        process.start()
        theirs.close()
        self._running[ours] = process, request

    def _finish(self, connection: Any) -> tuple[TrainRequest, SeedRun]:
        process, request = self._running[connection]
        try:
            run: SeedRun = connection.recv()
        except EOFError:
            process.join()
            code = process.exitcode
            assert request.seed is not None
            text = f"its process ended with exit code {code}"
            run = SeedRun(seed=request.seed, error=text, exit_code=1)
            if code in (-signal.SIGTERM, -signal.SIGINT):
                run = replace(run, status="interrupted", exit_code=128 - code)
        process.join()
        process.close()
        connection.close()
        del self._running[connection]
        return request, run


def _train(connection: Any, request: TrainRequest, quiet: bool) -> None:
    """Trains in a child process and sends the result; output lines are prefixed with the seed.

    The process has its own process group, so that Ctrl-C in a terminal reaches it only once:
    through its parent.
    """
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    threading.Thread(target=stop_with_parent, daemon=True).start()
    assert request.seed is not None
    run = SeedRun(seed=request.seed)
    with chatter("quiet" if quiet else "normal", f"seed {request.seed}: "):
        try:
            run = SeedRun.of(request.seed, launch(request))
        except StopNow as stop:
            run = replace(run, status="interrupted", exit_code=128 + stop.number, error=str(stop))
        except Exception as error:
            run = SeedRun.failed(request.seed, error)
    with suppress(BrokenPipeError):  # the parent was killed
        connection.send(run)
    connection.close()


def stop_with_parent() -> None:
    """Sends SIGTERM to this process when the parent has ended."""
    parent = multiprocessing.parent_process()
    if parent is not None and sys.platform != "win32":
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
