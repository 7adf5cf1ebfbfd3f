"""Master and slaves: a master gives tasks to slaves, which process one at a time.

A task is a name and plain data. It ends with a result, or fails with the text of what was raised
in the slave; a slave that stops answering fails its task after `TOLERANCE_S`.
"""

from __future__ import annotations

import abc
import threading
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dicore.errors import DicoreError, UsageError
from dicore_dist.links.errors import PeerError, RemoteTaskError, failure_of
from dicore_dist.links.http import HttpTransport

if TYPE_CHECKING:
    from dicore_dist.links.ray_link import RayTransport

__all__ = ["Connection", "Master", "Slave", "Task", "TaskStatus"]

HEARTBEAT_S: Final = 3.0
TOLERANCE_S: Final = 17.0

TaskStatus = StrEnum("TaskStatus", ["IDLE", "STARTED", "COMPLETED", "FAILED"])


class Slave(abc.ABC):
    """Processes the tasks of a master; subclass it and override `_process_task`.

    Tasks of a master that another one of the same job has replaced are refused.

    Args:
        host: Name or address at which the master reaches this process.
        port: Port; 0: any free one.
        token: The shared token; "": that of the variable `DICORE_TOKEN`.
        transport: Receives the tasks, with an `address`; None: HTTP at `host:port`.
    """

    concurrent: frozenset[str] = frozenset()
    """Names of tasks that are processed at once, beside another one."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str = "",
        transport: HttpTransport | RayTransport | None = None,
    ) -> None:
        self._transport = transport or HttpTransport(host, port, token=token)
        self._busy = threading.Lock()
        self._present = ""
        self._master: tuple[str, int] = ("", 0)
        self._present_master = self._master
        self._heard_at = time.monotonic()

    @property
    def silent_s(self) -> float:
        """Seconds since a master was heard, or since the start."""
        return time.monotonic() - self._heard_at

    @property
    def address(self) -> str:
        """Where the master reaches this slave: `host:port`, or `ray:NAME`."""
        return str(self._transport.address)

    @property
    def is_lost(self) -> bool:
        """Whether no master can reach this slave any more."""
        return bool(getattr(self._transport, "lost", False))

    def start(self) -> None:
        """Starts to accept tasks."""
        self._transport.serve("ping", self._answer_ping)
        self._transport.serve("task", self._accept)

    def close(self) -> None:
        """Stops to accept tasks; later calls do nothing."""
        self._transport.close()

    def _answer_ping(self, _: Mapping[str, object]) -> Mapping[str, object]:
        self._heard_at = time.monotonic()
        return {"task": self._present}

    def _accept(self, task: Mapping[str, Any]) -> Mapping[str, object]:
        self._heard_at = time.monotonic()
        name, data = str(task.get("name")), task.get("data") or {}
        master = str(task.get("job", "")), int(task.get("epoch", 0))
        self._obey(*master)
        if name in self.concurrent:
            return self._process_task(name, data)
        ends_first = self._present_master != master  # the task of a master that was replaced
        if not self._busy.acquire(blocking=ends_first):
            raise UsageError(f"busy with '{self._present}', '{name}' is refused")
        try:
            self._obey(*master)
            self._present, self._present_master = name, master
            return self._process_task(name, data)
        finally:
            self._present = ""
            self._busy.release()

    def _obey(self, job: str, epoch: int) -> None:
        """Refuses the tasks of a master that was replaced."""
        known, newest = self._master
        if job == known and epoch < newest:
            raise UsageError(f"this master, number {epoch}, was replaced by number {newest}")
        self._master = job, epoch

    @abc.abstractmethod
    def _process_task(self, name: str, data: Mapping[str, object]) -> Mapping[str, Any]:
        """Processes one task and returns its result; what it raises is the task's failure."""


class CallbackSlave(Slave):
    """A slave whose tasks call functions.

    Args:
        host: Name or address at which the master reaches this process.
        port: Port; 0: any free one.
        callback_fn: A function per callback name, see `callbacks`.
        token: The shared token.
        transport: Receives the tasks; see `Slave`.
    """

    callbacks: ClassVar[Mapping[str, str]] = {}
    """Name of the callback of each task."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        callback_fn: Mapping[str, Callable[..., Mapping[str, object]]] | None = None,
        token: str = "",
        transport: HttpTransport | RayTransport | None = None,
    ) -> None:
        super().__init__(host, port, token, transport)
        self._callback_fn = dict(callback_fn or {})
        missing = sorted(set(self.callbacks.values()) - set(self._callback_fn))
        if missing:
            raise UsageError(f"{type(self).__name__} needs the callbacks {', '.join(missing)}")

    def _process_task(self, name: str, data: Mapping[str, object]) -> Mapping[str, Any]:
        """Calls the callback of a task.

        Raises:
            UsageError: there is no such task.
        """
        if name not in self.callbacks:
            expected = ", ".join(self.callbacks)
            raise UsageError(f"unknown task '{name}'; expected {expected}")
        return self._callback_fn[self.callbacks[name]](data)


class Task:
    """One task of a slave, which runs in a thread of the master.

    Attributes:
        status: IDLE, STARTED, COMPLETED or FAILED.
        result: What the slave returned; empty before that.
        error: What failed; None before that.
    """

    def __init__(self, run: Callable[[], Mapping[str, Any]], name: str) -> None:
        self._run, self.name = run, name
        self.status = TaskStatus.IDLE
        self.result: Mapping[str, Any] = {}
        self.error: DicoreError | None = None
        self._completed: list[Callable[[Task], None]] = []
        self._failed: list[Callable[[Task], None]] = []
        self._thread = threading.Thread(target=self._work, name="dicore-task", daemon=True)

    def start(self) -> Task:
        """Sends the task."""
        self.status = TaskStatus.STARTED
        self._thread.start()
        return self

    def join(self, timeout: float | None = None) -> Task:
        """Waits for the end of the task."""
        self._thread.join(timeout)
        return self

    def on_complete(self, callback: Callable[[Task], None]) -> Task:
        """Calls a function with this task when it is completed."""
        self._completed.append(callback)
        return self

    def on_fail(self, callback: Callable[[Task], None]) -> Task:
        """Calls a function with this task when it has failed."""
        self._failed.append(callback)
        return self

    def _work(self) -> None:
        try:
            self.result = self._run()
        except BaseException as error:  # whatever ends a task, those who wait for it are told
            self.error = (
                error if isinstance(error, DicoreError) else RemoteTaskError.of(failure_of(error))
            )
            self.status = TaskStatus.FAILED
        else:
            self.status = TaskStatus.COMPLETED
        done = self.status is TaskStatus.COMPLETED
        for callback in self._completed if done else self._failed:
            callback(self)


class Connection:
    """A slave, as the master sees it.

    Args:
        address: `host:port` of the slave, or `ray:NAME`.
        token: The shared token.
        heartbeat_s: Seconds between two signs of life.
        tolerance_s: Seconds without a sign of life after which a task fails.
        master: The job and the number of this master in it; slaves refuse an older one.
    """

    def __init__(
        self,
        address: str,
        token: str = "",
        heartbeat_s: float = HEARTBEAT_S,
        tolerance_s: float = TOLERANCE_S,
        master: tuple[str, int] = ("", 0),
    ) -> None:
        self.address, self._master = address, master
        self._transport = _transport_to(address, token)
        self._heartbeat_s, self._tolerance_s = heartbeat_s, tolerance_s

    def wait(self, timeout: float, stopped: Callable[[], bool] = lambda: False) -> None:
        """Waits until the slave answers.

        Raises:
            PeerError: it does not within `timeout` seconds.
        """
        end = time.monotonic() + timeout
        while not stopped():
            try:
                self._transport.request("ping", {}, timeout=self._heartbeat_s)
            except PeerError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
            else:
                return

    def new_task(self, name: str, data: Mapping[str, object] | None = None) -> Task:
        """Returns a task of this slave; `start` sends it."""
        return Task(lambda: self.process(name, data), name)

    def process(
        self, name: str, data: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> Any:
        """Sends a task and waits for its result.

        Raises:
            RemoteTaskError: the task failed; the text is what was raised in the slave.
            PeerError: the slave does not answer, or the task took longer than `timeout` seconds.
        """
        box: dict[str, Any] = {}
        job, epoch = self._master
        body = {"name": name, "data": dict(data or {}), "job": job, "epoch": epoch}

        def ask() -> None:
            try:
                box["result"] = self._transport.request("task", body, timeout=timeout)
            except BaseException as error:
                box["error"] = error

        thread = threading.Thread(target=ask, name="dicore-request", daemon=True)
        thread.start()
        self._watch(thread, name)
        if "error" in box:
            error = box["error"]
            error.add_note(f"in task '{name}' of {self.address}")
            raise error
        return box["result"]

    def _watch(self, thread: threading.Thread, name: str) -> None:
        """Waits for a request; asks for signs of life meanwhile."""
        seen = time.monotonic()
        while True:
            thread.join(self._heartbeat_s)
            if not thread.is_alive():
                return
            try:
                self._transport.request("ping", {}, timeout=self._heartbeat_s)
                seen = time.monotonic()
            except (PeerError, RemoteTaskError) as error:
                silent = time.monotonic() - seen
                if silent > self._tolerance_s and thread.is_alive():
                    raise PeerError(
                        f"{self.address} has been silent for {silent:.0f} s in task '{name}'",
                        context=dict(error.context),
                    ) from error


def _transport_to(address: str, token: str) -> HttpTransport | RayTransport:
    """Returns what asks the process at an address."""
    if not address.startswith("ray:"):
        return HttpTransport(peer=address, token=token)
    from dicore_dist.links.ray_link import RayTransport

    return RayTransport(peer=address, token=token)


class Master:
    """Gives tasks to slaves.

    Args:
        token: The shared token; "": that of the variable `DICORE_TOKEN`.
    """

    def __init__(self, token: str = "") -> None:
        self._token = token

    def connect(self, host: str, port: int) -> Connection:
        """Returns a slave; it need not run yet."""
        return Connection(f"{host}:{port}", self._token)
