"""Event router: events of a task reach the tasks of other processes, over a message queue."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from dicore.errors import ClosedError
from dicore.task.events import Events, Router
from dicore_plugins.messages import pack, unpack

if TYPE_CHECKING:
    from dicore.task import Task

__all__ = ["FINISH", "EventRouter"]

FINISH: Final = "finish"
"""Event of a task that ended; it ends the tasks of all connected processes."""

_LOG = logging.getLogger("dicore.comm")


class EventRouter(Router):
    """Sends the events of a task to the processes of a message queue, and emits theirs here.

    Remote events call the listeners in a thread, one after the other. The error of a listener is
    raised in the main loop, at the next step or `emit`. When a task has ended, the tasks of all
    connected processes finish too.

    Args:
        bus: A message queue, see `IMessageQueue`.
        node_id: Number of this process.
        labels: Labels of the task, besides `distributed` and `node.<id>`.
    """

    is_active = True

    def __init__(self, bus: Any, node_id: int = 0, labels: Collection[str] = ()) -> None:
        self.bus, self.node_id = bus, node_id
        self.labels = frozenset({*labels, "distributed", f"node.{node_id}"})
        self._task: Any = None
        self._error: BaseException | None = None
        self._finished_by_other = self._finished_before = False
        self._thread = threading.Thread(target=self._receive, name="dicore-router", daemon=True)

    def listen(self) -> None:
        """Starts to receive, also that the others finish before the first task starts here."""
        self.bus.listen()
        self.bus.subscribe(FINISH)
        self._thread.start()

    def stop(self) -> None:
        """Sends what waits and closes all connections."""
        self.bus.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def route(self, what: str, task: Events, *details: object) -> None:
        """Receives what a task does; see `Router`."""
        getattr(self, f"_{what}")(task, *details)

    def _start(self, task: Task) -> None:
        self._task, self._finished_by_other = task, self._finished_before
        self._finished_before = False
        if self._finished_by_other:
            task.finish = True

    def _on(self, task: Any, event: str) -> None:
        self.bus.subscribe(event)

    def _emit(
        self, task: Task, event: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self._step(task)
        wanted = getattr(self.bus, "is_wanted", None)
        if wanted is None or wanted(event):
            self.bus.publish(event, pack({"args": args, "kwargs": dict(kwargs)}))

    def _step(self, task: Task) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _end(self, task: Task) -> None:
        if not self._finished_by_other:
            task.emit(FINISH, True)

    def _receive(self) -> None:
        while True:
            try:
                event, data = self.bus.recv()
            except ClosedError:
                return
            except BaseException as error:
                self._fail(error)
                return
            try:
                self._deliver(event, unpack(data))
            except BaseException as error:  # the main loop raises it
                self._fail(error)

    def _deliver(self, event: str, message: Mapping[str, Any]) -> None:
        task = self._task
        if task is None:
            self._finished_before = self._finished_before or event == FINISH
            return
        if not task.running:
            return
        if event == FINISH:
            self._finished_by_other = True
            task.finish = True
        task.emit(event, *message["args"], only_local=True, **message["kwargs"])

    def _fail(self, error: BaseException) -> None:
        """Stores an error for the main loop, and ends the wait of a middleware that asks for it."""
        _LOG.debug("an event from another process failed: %r", error)
        self._error = self._error or error

    @property
    def ending(self) -> bool:
        """Another process has finished, or an error waits to be raised in the main loop."""
        return self._finished_by_other or self._error is not None
