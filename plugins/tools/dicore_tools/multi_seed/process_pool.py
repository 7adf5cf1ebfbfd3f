"""Trainings in processes of their own, which end with the one that started them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any, Self

from dicore.console import chatter, is_quiet
from dicore.run.launch import TrainRequest, launch
from dicore.run.signals import StopFlag, StopNow, stop_on_signals
from dicore_tools.multi_seed.seed_run import SeedRun

__all__ = ["Jobs"]

_LOOK = 0.2
"""Seconds between two looks at the stop flag."""
_PATIENCE = 10.0
"""Seconds that a process may take to end after it was told to stop at once."""


class Jobs:
    """Runs trainings in processes, a few at a time.

    SIGINT or SIGTERM, sent to this process, ends all of them after saving; a second one ends them
    at once. Should this process be killed, they save and end as well.

    Args:
        at_a_time: Most processes at a time.
    """

    def __init__(self, at_a_time: int) -> None:
        self._at_a_time = at_a_time
        self._spawn = multiprocessing.get_context("spawn")
        self._running: dict[Connection, tuple[Any, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what still runs."""
        for process, _seed in self._running.values():
            process.terminate()
        for connection, (process, _seed) in self._running.items():
            process.join(_PATIENCE)
            if process.is_alive():
                process.kill()
                process.join()
            connection.close()
            process.close()
        self._running.clear()

    def run(self, requests: Sequence[TrainRequest]) -> Iterator[SeedRun]:
        """Yields each run when it has ended, in the order of their ends.

        Args:
            requests: What to train, each with a seed. A config must be picklable.

        Raises:
            StopNow: a second signal came; the processes are told, and ended by `__exit__`.
        """
        waiting = list(requests)
        flag = StopFlag()
        told = False
        with stop_on_signals(flag):
            while self._running or (waiting and not flag):
                while waiting and not flag and len(self._running) < self._at_a_time:
                    self._start(waiting.pop(0))
                if flag and not told:
                    told = True
                    for process, _seed in self._running.values():
                        process.terminate()
                for connection in wait(list(self._running), _LOOK):
                    assert isinstance(connection, Connection)
                    run = self._ended(connection)
                    if run.status == "interrupted" and flag:
                        run = replace(run, exit_code=flag.exit_code)
                    yield run

    def _start(self, request: TrainRequest) -> None:
        assert request.seed is not None
        ours, theirs = self._spawn.Pipe(duplex=False)
        process = self._spawn.Process(
            target=_train, args=(theirs, replace(request, own_process=False), is_quiet())
        )
        process.start()
        theirs.close()
        self._running[ours] = process, request.seed

    def _ended(self, connection: Connection) -> SeedRun:
        process, seed = self._running[connection]
        try:
            run: SeedRun = connection.recv()
        except EOFError:
            process.join()
            code = process.exitcode
            run = SeedRun(seed=seed, error=f"its process ended with exit code {code}", exit_code=1)
            if code in (-signal.SIGTERM, -signal.SIGINT):
                run = replace(run, status="interrupted", exit_code=128 - code)
        process.join()
        process.close()
        connection.close()
        del self._running[connection]
        return run


def _train(connection: Connection, request: TrainRequest, quiet: bool) -> None:
    """Trains in a new process, and tells what came of it; what it says begins with its seed.

    The process has a group of its own, so that Ctrl-C in a terminal reaches it once: through its
    parent.
    """
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    threading.Thread(target=_follow_parent, daemon=True).start()
    assert request.seed is not None
    run = SeedRun(seed=request.seed)
    with chatter("quiet" if quiet else "normal", f"seed {request.seed}: "):
        try:
            run = SeedRun.of(request.seed, launch(request))
        except StopNow as stop:
            run = replace(run, status="interrupted", exit_code=128 + stop.number, error=str(stop))
        except Exception as error:
            run = SeedRun.failed(request.seed, error)
    connection.send(run)
    connection.close()


def _follow_parent() -> None:
    """Asks for a stop when the parent is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None and sys.platform != "win32":
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
