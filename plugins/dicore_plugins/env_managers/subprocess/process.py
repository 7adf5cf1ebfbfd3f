"""A worker seen from the main process: it is started, asked, watched and ended here."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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

__all__ = ["Limits", "Request", "Worker"]

_LOG = logging.getLogger("dicore.env")
_BOARD_BYTES = 16
_TERM_S = 0.5
"""Time between SIGTERM and SIGKILL."""
_WARN_AT = 0.25
"""Part of a limit after which a slow call is logged."""
_NAME = "dicore-env-"
_UNGUARDED = 77
"""Exit code of a worker that would start workers."""
_GUARD = (
    "the main script starts workers when it is imported, which each worker does",
    "put what the script does below the line: if __name__ == '__main__':",
)


class Limits(NamedTuple):
    """Time limits of a worker, in seconds.

    Args:
        connect: To start a process, and for each environment to be made.
        reset: For each reset, and for each call of a method.
        step: For each step.
    """

    connect: float
    reset: float
    step: float


class Request(NamedTuple):
    """What a worker was asked for.

    Args:
        number: Of the message.
        name: What it calls.
        begun: When it was sent.
        ids: The environments.
        buffer: Of the results of a step.
    """

    number: int
    name: str
    begun: float
    ids: Sequence[int] = ()
    buffer: int = 0


class Worker:
    """A process with some of the environments.

    Args:
        env_fn: Their factories, pickled.
        ids: Their ids, which follow each other.
        context: How processes are started: `forkserver`, `spawn`, `fork`.
        limits: Time limits.
        output: File for what the environments print; None: they print to the terminal.

    Attributes:
        requests: Those that are not answered, by number.
        launched: Its environments are made.
        time_limits: Of its environments, in steps.
        early: Answers that came while another one was awaited, of requests that name environments.
        states: Of the stateful layers of environments, before their last reset, by env id.
    """

    def __init__(
        self,
        env_fn: bytes,
        ids: list[int],
        context: str,
        limits: Limits,
        output: Path | None = None,
    ) -> None:
        self._output = output
        self.ids, self.rows = ids, slice(ids[0], ids[-1] + 1)
        self.requests: dict[int, Request] = {}
        self.early: list[tuple[Request, bytes | RemoteError]] = []
        self.states: dict[int, Sequence[Any]] = {}
        self._env_fn, self._context = env_fn, context
        self._limits = limits
        self.launched = False
        self.time_limits: list[float] = []
        self._process: Any = None
        self._number = 0
        self._warned = -1

    @property
    def alive(self) -> bool:
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
        current = multiprocessing.current_process()
        if getattr(current, "_inheriting", False):
            if current.name.startswith(_NAME):
                os._exit(_UNGUARDED)  # its main process says it, once for all workers
            raise UsageError(*_GUARD[:1], hint=_GUARD[1])
        context: Any = multiprocessing.get_context(self._context)
        ours, theirs = socket.socketpair()
        board, lifeline = shared_file(_BOARD_BYTES), Lifeline()
        try:
            mapped = memoryview(map_file(board))
            self._clock, self._busy = mapped[:8].cast("d"), mapped[8:].cast("q")
            self._busy[0] = -1
            given = theirs, "" if self._output is None else str(self._output)
            process = context.Process(target=work, args=given, name=f"{_NAME}{self.ids[0]}")
            with _importable_main(), one_thread_each():
                process.start()
            theirs.close()
            self._process, self._lifeline = process, lifeline
            self.channel = Channel(ours, min(0.2, *self._limits))
            self.send_files([lifeline.end, board])
            lifeline.handed_over()
        except BaseException as error:
            ours.close()
            theirs.close()
            if isinstance(error, OSError | EOFError):  # EOFError: the fork server could not
                raise RemoteError(
                    type(error).__name__, f"its process could not be started: {error}",
                    hint="have fewer processes: set env.manager.envs_per_worker; or raise the limit"
                    " of processes (ulimit -u, pids.max) or of memory",
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

    def post(
        self, name: str, *args: object, ids: Sequence[int] = (), buffer: int = 0, body: bytes = b""
    ) -> Request:
        """Sends a request; that the worker ended is found when its answer is awaited.

        Args:
            name: Method of `WorkerPool`.
            *args: Its arguments.
            ids: The environments, if the answer may come while another one is awaited.
            buffer: Of their results.
            body: The message, if it is not to be made of name and arguments.
        """
        data = body or dumps((name, args))  # before the request counts: it may not pickle
        self._number += 1
        request = Request(self._number, name, time.monotonic(), ids, buffer)
        self.requests[self._number] = request
        with contextlib.suppress(OSError):  # TimeoutError is one
            self.channel.send(self._number, data, request.begun + self._limits.step)
        return request

    def answer(self, request: Request) -> bytes:
        """Waits for the answer to a request; earlier answers are dropped.

        Raises:
            RemoteError: the worker ended or took too long; it is ended.
        """
        while True:
            try:
                message = self.channel.receive()
            except EOFError:
                raise self.lost() from None
            if message is None:
                self.check()
                continue
            if message[0] == request.number:
                del self.requests[request.number]
                return message[1]
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

    def watch(self) -> None:
        """Ends the worker if it takes too long or died; the answers in `early` say so."""
        with contextlib.suppress(RemoteError):
            self.check()

    def value(self, request: Request) -> Any:
        """Waits for the value that an answer holds.

        Raises:
            RemoteError: as `answer`, or the exception of the worker.
        """
        body = self.answer(request)
        if not body:
            return None
        worked, value = loads(body)
        try:
            if not worked:
                raise value
            return value
        finally:
            del value  # an exception and the frame that raised it would keep each other alive

    def check(self) -> None:
        """Finds a worker that ended without closing its connection, or that takes too long.

        Raises:
            RemoteError: it did; it is ended.
        """
        if not self.requests or self._readable():  # an answer that nobody has read is not late
            return
        if not self._process.is_alive():
            raise self.lost()
        request = next(iter(self.requests.values()))
        busy, now = self._busy[0], time.monotonic()
        took = now - max(self._clock[0], request.begun)
        resets, env_id = (busy >= RESETS), busy % RESETS
        who, hint = f"env {env_id if busy >= 0 else self.ids[0]}", ""
        if request.name in ("make", "launch"):
            limit, what, option = self._limits.connect, "made", "connect"
            if busy < 0:
                who, what = f"the process of {who}", "started"
                hint = "; the machine is very busy, or an import hangs"
        elif resets or request.name != "step":
            what = "reset" if resets else f"asked: {request.name}"
            limit, option = self._limits.reset, "reset"
        else:
            limit, what, option = self._limits.step, "stepped", "step"
        if took > limit:
            error = RemoteError(
                "TimeoutError", f"no answer within {limit:g} s while {who} was {what}",
                hint=f"raise env.manager.{option}_timeout{hint}",
            )  # fmt: skip
            self.end(_TERM_S, error)
            raise error
        if took > limit * _WARN_AT and self._warned != request.number:
            self._warned = request.number
            _LOG.warning("%s is being %s for %.1f s; the limit is %g s", who, what, took, limit)

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
        """Ends the process and those that it started.

        Args:
            grace_s: Time between SIGTERM and SIGKILL.
            why: The answer to the requests that are pending.
        """
        process, self._process = self._process, None
        self.launched = False
        if process is None:
            return
        if why is not None:
            self.early += [(each, why) for each in self.requests.values() if each.ids]
        self.requests.clear()
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
