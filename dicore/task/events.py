"""Events of a task: listeners are called immediately and in order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from dicore.errors import TaskError
from dicore.task.middleware import name_of

__all__ = ["Events"]

_LOG = logging.getLogger("dicore.task")
_LOOK_S = 10.0
"""Seconds after which a wait without a limit says what it is for."""


_Listener = tuple[Callable[..., object], bool]
"""A function, and whether it is called once only."""


class Router:
    """Connects the events of a task with other processes; this class: a task of one process."""

    is_active, node_id, labels = False, 0, frozenset({"standalone"})

    def route(self, what: str, task: Events, *details: object) -> None:
        """Receives what a task does: start, on (event), emit (event, args, kwargs), step, end."""


class Events:
    """The events of a task; an exception of a listener propagates from `emit`."""

    router = Router()

    def __init__(self) -> None:
        self._listeners: dict[str, list[_Listener]] = {}
        self._changing = threading.Lock()
        self._waiting: set[threading.Event] = set()

    def on(self, event: str, fn: Callable[..., object], *, once: bool = False) -> None:
        """Calls `fn` with the arguments of every later `emit`; the task must be running."""
        self._check_running("on")
        if not callable(fn):
            raise TaskError(f"a listener of event '{event}' must be callable, got {fn!r}")
        with self._changing:
            self._listeners.setdefault(event, []).append((fn, once))
        self.router.route("on", self, event)

    def once(self, event: str, fn: Callable[..., object]) -> None:
        """Calls `fn` with the arguments of the next `emit` only; else like `on`."""
        self.on(event, fn, once=True)

    def off(self, event: str, fn: Callable[..., object] | None = None) -> None:
        """Removes a listener of an event, or all; does nothing if there is none."""
        self._check_running("off")
        with self._changing:
            kept = [each for each in self._listeners.get(event, ()) if fn and each[0] != fn]
            self._listeners[event] = kept

    def emit(
        self,
        event: str,
        *args: object,
        only_remote: bool = False,
        only_local: bool = False,
        **kwargs: object,
    ) -> None:
        """Calls the listeners of an event in the order of registration; returns after the last.

        The first exception of a listener propagates, with a note that names the listener.
        `only_remote` skips the listeners of this process, `only_local` those of others.
        """
        self._check_running("emit")
        if only_remote and only_local:
            raise TaskError(f"event '{event}' cannot be both only_remote and only_local")
        if not only_local:
            self.router.route("emit", self, event, args, kwargs)
        if only_remote:
            return
        with self._changing:
            called = tuple(self._listeners.get(event, ()))
            if called:
                self._listeners[event] = [each for each in called if not each[1]]
        for fn, _ in called:
            try:
                fn(*args, **kwargs)
            except Exception as error:
                error.add_note(f"raised in listener '{name_of(fn)}' of event '{event}'")
                raise

    def wait_for(
        self, event: str, timeout: float | None = None, ignore_timeout_exception: bool = True
    ) -> object:
        """Waits until another thread emits an event; returns its argument, or a tuple of several.

        After `timeout` seconds it returns None, or raises `TimeoutError` if
        `ignore_timeout_exception` is false. It raises `TaskError` if the task ends meanwhile, and
        without `timeout` if nothing is left that may emit the event.
        """
        happened = threading.Event()
        arrived: list[tuple[object, ...]] = []

        def arrive(*args: object, **_: object) -> None:
            arrived.append(args)
            happened.set()

        self._waiting.add(happened)
        self.once(event, arrive)
        try:
            while not (in_time := happened.wait(_LOOK_S if timeout is None else timeout)):
                if timeout is not None:
                    break
                self._check_wait(event)
        finally:
            self._waiting.discard(happened)
            if not arrived and self._listeners:
                self.off(event, arrive)
        if not in_time:
            if ignore_timeout_exception:
                return None
            raise TimeoutError(f"event '{event}' was not emitted within {timeout} s")
        if not arrived:
            raise TaskError(f"the task ended before event '{event}' was emitted")
        args = arrived[0]
        return args[0] if len(args) == 1 else args or None

    def _check_wait(self, event: str) -> None:
        """Says that a middleware still waits; raises `TaskError` if it would do so for ever."""
        _LOG.warning("event '%s' is waited for, and was not emitted for %g s", event, _LOOK_S)

    def _end_events(self) -> None:
        """Removes all listeners and wakes the threads in `wait_for`."""
        self._listeners.clear()
        for happened in tuple(self._waiting):
            happened.set()

    def _check_running(self, what: str) -> None:
        """Raises `TaskError` outside of a running task."""
        raise NotImplementedError
