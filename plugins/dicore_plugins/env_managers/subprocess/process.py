"""A worker seen from the main process: it is started, asked, watched and ended here."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import multiprocessing.forkserver
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dicore.errors import UsageError
from dicore_plugins.env_managers.faults import RemoteError
from dicore_plugins.env_managers.subprocess.channel import (
    Channel,
    Lifeline,
    dumps,
    loads,
    map_file,
    shared_file,
)
from dicore_plugins.env_managers.subprocess.output import finished, say_where
from dicore_plugins.env_managers.subprocess.worker import RESETS, one_thread_each, work
from dicore_plugins.env_managers.workers import Answer, BaseWorker, Limits, Request

__all__ = ["Worker"]

_LOG = logging.getLogger("dicore.env")
_BOARD_BYTES = 16
_NAME = "dicore-env-"
_UNGUARDED = 77
"""Exit code of a worker that would start workers."""
_SERVER_S = 60.0
"""Time that a fork server has at least for its first answer, before which it imports packages."""
_LATE = "raise env.manager.connect_timeout if nobody suspended it: its imports take time"
_TOO_MANY = (
    "have fewer processes: set env.manager.envs_per_worker; or raise the limit of processes"
    " (ulimit -u, pids.max) or of memory"
)
_GUARD = (
    "the main script starts workers when it is imported, which each worker does",
    "put what the script does below the line: if __name__ == '__main__':",
)


class Worker(BaseWorker):
    """A process with some of the environments.

    Args:
        env_fn: Their factories, pickled.
        ids: Their ids, which follow each other.
        context: How processes are started: `forkserver`, `spawn`, `fork`.
        limits: Time limits.
        output: File for what the environments print; None: they print to the terminal.
    """

    def __init__(
        self,
        env_fn: bytes,
        ids: list[int],
        context: str,
        limits: Limits,
        output: Path | None = None,
    ) -> None:
        super().__init__(ids, limits)
        self._env_fn, self._context, self._output = env_fn, context, output
        self._process: Any = None

    @property
    def alive(self) -> bool:  # type: ignore[override] # it cannot be set
        """Whether it is started and was not found to have ended."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """Id of its process."""
        return int(self._process.pid)

    def start(self) -> None:
        """Starts the process; the environments are not made yet.

        Raises:
            RemoteError: the system starts no more processes.
            UsageError: a worker, or the import of the main script, starts workers.
        """
        _check_guard()
        context: Any = multiprocessing.get_context(self._context)
        ours, theirs = socket.socketpair()
        board, lifeline = shared_file(_BOARD_BYTES), Lifeline()
        try:
            mapped = memoryview(map_file(board))
            self._clock, self._busy = mapped[:8].cast("d"), mapped[8:].cast("q")
            self._busy[0] = -1
            given = theirs, "" if self._output is None else str(self._output)
            process = context.Process(target=work, args=given, name=f"{_NAME}{self.ids[0]}")
            limit = max(self._limits.connect, _SERVER_S)
            with _importable_main(), one_thread_each(), _answering(self._context, limit):
                process.start()
            theirs.close()
            self._process, self._lifeline = process, lifeline
            self.channel = Channel(ours, min(0.2, *self._limits[:3]))
            self.send_files([lifeline.end, board])
            lifeline.handed_over()
        except BaseException as error:
            ours.close()
            theirs.close()
            if isinstance(error, OSError | EOFError):  # EOFError: the fork server could not
                late = isinstance(error, TimeoutError)
                raise RemoteError(
                    type(error).__name__, f"its process could not be started: {error}",
                    hint=_LATE if late else _TOO_MANY,
                ) from error  # fmt: skip
            raise
        finally:
            os.close(board)
        self.post("make", self._env_fn, self.ids)

    def send_files(self, files: Sequence[int]) -> None:
        """Gives descriptors to the process.

        Raises:
            RemoteError: it ended.
        """
        try:
            socket.send_fds(self.channel.socket, [b"f"], files)
        except OSError:
            raise self.lost() from None

    def post(self, name: str, *args: object, ids: Sequence[int] = (), body: bytes = b"") -> Request:
        """Sends a request; see `BaseWorker`."""
        data = body or dumps((name, args))  # before the request counts: it may not pickle
        request = self._asked(name, ids)
        try:
            self.channel.send(request.number, data, request.begun + self._limits.step)
        except OSError:  # TimeoutError is one; faster than contextlib.suppress
            return request
        return request

    def answer(self, request: Request) -> Answer:
        """Waits for the answer to a request; see `BaseWorker`."""
        while True:
            try:
                message = self.channel.receive()
            except EOFError:
                raise self.lost() from None
            if message is None:
                self.check()
            elif message[0] == request.number:
                del self.requests[request.number]
                return message[1]
            else:
                self._early(message)

    def collect(self) -> None:
        """Moves the answers that have come to `early`."""
        try:
            while self.requests and (message := self.channel.receive(wait=False)) is not None:
                self._early(message)
        except EOFError:
            self.lost()

    def _early(self, message: tuple[int, bytes]) -> None:
        request = self.requests.pop(message[0])
        if request.ids:
            self.early.append((request, message[1]))

    def opened(self, answer: Answer) -> object:
        """Returns the value of a pickled answer, or the exception that it holds."""
        if isinstance(answer, RemoteError) or not answer:
            return answer or None
        return loads(answer)[1]

    def _busy_with(self) -> tuple[float, int, bool]:
        """Returns what the board says."""
        if not self._process.is_alive():
            raise self.lost()
        busy = self._busy[0]
        return self._clock[0], busy % RESETS if busy >= 0 else -1, busy >= RESETS

    def _readable(self) -> bool:
        try:
            return bool(self.channel.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            return False

    def lost(self) -> RemoteError:
        """Ends a worker that was found dead; returns how it died."""
        busy, process = self._busy[0], self._process
        process.join(1.0)
        code = process.exitcode
        if code == _UNGUARDED:
            error = RemoteError("UsageError", _GUARD[0], hint=_GUARD[1])
            self.end(0.0, error)
            return error
        text = f"its worker {_how(code)}"
        if busy >= 0 and len(self.ids) > 1:
            text += f" while env {busy % RESETS} was {'reset' if busy >= RESETS else 'stepped'}"
        told = self._output is not None and finished(self._output)
        error = RemoteError(
            "WorkerLost", f"{text}; its output is in {self._output}" if told else text
        )
        self.end(0.0, error)
        return error

    def end(self, grace_s: float = 0.0, why: RemoteError | None = None) -> None:
        """Ends the process and those that it started; `grace_s` after SIGTERM, by SIGKILL."""
        process, self._process = self._process, None
        if process is None:
            return
        self._forget(why)
        if grace_s > 0:
            _signal(process, signal.SIGTERM)
            process.join(grace_s)
        _signal(process, signal.SIGKILL)
        process.join(1.0)
        if self._output is not None and finished(self._output):
            say_where(self._output.parent)
        self.channel.close()
        self._lifeline.close()
        self._clock.release()
        self._busy.release()
        with contextlib.suppress(ValueError):  # it still runs: not even the kernel could end it
            process.close()

    def dismiss(self) -> None:
        """Asks the process to close its environments and to end."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                self.channel.send(0, dumps(("close", ())), 0.0)

    def leave(self, until: float) -> None:
        """Waits until the process ended, at most until then, and kills it if it did not."""
        if self._process is not None:
            self._process.join(max(0.0, until - time.monotonic()))
            self.end()


@contextlib.contextmanager
def _answering(context: str, seconds: float) -> Iterator[None]:
    """Ends a fork server that answers too late: Python would wait for a suspended one for ever.

    Raises:
        TimeoutError: it was ended; the next start begins another one.
    """
    ended: list[int] = []

    def end() -> None:
        server: Any = multiprocessing.forkserver._forkserver  # noqa: SLF001 - tells its id nowhere else
        ended.append(server._forkserver_pid)  # noqa: SLF001 - as above
        os.kill(ended[0], signal.SIGKILL)

    if context != "forkserver" or seconds > threading.TIMEOUT_MAX:
        yield
        return
    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, EOFError) as error:
        if not ended:
            raise
        with contextlib.suppress(AttributeError, OSError):  # till then the next would ask it
            os.waitid(os.P_PID, ended[0], os.WEXITED | os.WNOWAIT)
        raise TimeoutError(
            f"the fork server (process {ended[0]}) did not answer for {seconds:g} s and was ended"
        ) from error
    finally:
        timer.cancel()


def _check_guard() -> None:
    """Raises UsageError where the main script is being imported; ends a worker that imports it."""
    current = multiprocessing.current_process()
    if getattr(current, "_inheriting", False):
        if current.name.startswith(_NAME):
            os._exit(_UNGUARDED)  # its main process says it, once for all workers
        raise UsageError(_GUARD[0], hint=_GUARD[1])


def _how(code: int | None) -> str:
    """Returns how a process ended, from its exit code."""
    if code is None:
        return "closed its connection"
    if code >= 0:
        return f"ended with exit code {code}"
    memory = ", maybe out of memory" if -code == signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-code).name}{memory}"


def _signal(process: Any, number: int) -> None:
    """Sends a signal to a worker and the processes that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
    if process.is_alive():  # and has not made its group yet
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


@contextlib.contextmanager
def _importable_main() -> Iterator[None]:
    """Hides a main script that is not a file (`python - < main.py`): workers cannot import it.

    They need not: what it defines is pickled by value.
    """
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is None or not path.startswith("<"):
        yield
        return
    del main.__file__
    try:
        yield
    finally:
        main.__file__ = path
