"""Events of a task: named moments that others listen to, delivered at once and in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dicore.errors import TaskError
from dicore.task.middleware import name_of

__all__ = ["Events"]


@dataclass(eq=False, slots=True)
class _Listener:
    fn: Callable[..., Any]
    once: bool


class Events:
    """What a task knows of events; a listener's exception surfaces from the `emit` that called it.

    So far a task is one process; `only_remote` and `only_local` are there for more than one.
    """

    def __init__(self) -> None:
        self._listeners: dict[str, list[_Listener]] = {}
        self._changing = threading.Lock()
        self._waiting: set[threading.Event] = set()

    def on(self, event: str, fn: Callable[..., Any]) -> None:
        """Calls `fn` with the arguments of every later `emit`.

        Raises:
            TaskError: `fn` cannot be called, or the task is not running.
        """
        self._listen(event, _Listener(fn, once=False))

    def once(self, event: str, fn: Callable[..., Any]) -> None:
        """Calls `fn` with the arguments of the next `emit` alone; else as `on`."""
        self._listen(event, _Listener(fn, once=True))

    def off(self, event: str, fn: Callable[..., Any] | None = None) -> None:
        """Forgets a listener of an event, or all of them; forgetting what is not there is quiet."""
        self._check_running("off")
        with self._changing:
            kept = [each for each in self._listeners.get(event, ()) if fn and each.fn != fn]
            self._listeners[event] = kept

    def emit(
        self,
        event: str,
        *args: Any,
        only_remote: bool = False,
        only_local: bool = False,
        **kwargs: Any,
    ) -> None:
        """Calls the listeners of an event, in the order they came; returns when all were called.

        Args:
            event: Its name.
            *args: What listeners are called with.
            only_remote: Do not tell listeners of this process.
            only_local: Do not tell other processes.
            **kwargs: What listeners are called with.

        Raises:
            Exception: the first that a listener raised, noted with its name; the listeners after
                it are not called.
            TaskError: both flags are set, or the task is not running.
        """
        self._check_running("emit")
        if only_remote and only_local:
            raise TaskError(f"event '{event}' cannot be both only_remote and only_local")
        if only_remote:
            return
        with self._changing:
            called = tuple(self._listeners.get(event, ()))
            if called:
                self._listeners[event] = [each for each in called if not each.once]
        for listener in called:
            try:
                listener.fn(*args, **kwargs)
            except Exception as error:
                error.add_note(f"raised in listener '{name_of(listener.fn)}' of event '{event}'")
                raise

    def wait_for(
        self, event: str, timeout: float | None = None, ignore_timeout_exception: bool = True
    ) -> Any:
        """Waits until another thread emits an event.

        Args:
            event: Its name.
            timeout: Longest wait in seconds; None waits for ever.
            ignore_timeout_exception: Return None when time is up.

        Returns:
            The argument that it was emitted with; a tuple where there were several, None where
            there was none.

        Raises:
            TimeoutError: time is up, and `ignore_timeout_exception` is false.
            TaskError: the task ended meanwhile, or is not running.
        """
        happened = threading.Event()
        arrived: list[tuple[Any, ...]] = []

        def arrive(*args: Any, **_: Any) -> None:
            arrived.append(args)
            happened.set()

        self._waiting.add(happened)
        self.once(event, arrive)
        in_time = happened.wait(timeout)
        self._waiting.discard(happened)
        if not in_time:
            self.off(event, arrive)
            if ignore_timeout_exception:
                return None
            raise TimeoutError(f"event '{event}' was not emitted within {timeout} s")
        if not arrived:
            raise TaskError(f"the task ended before event '{event}' was emitted")
        args = arrived[0]
        return args[0] if len(args) == 1 else args or None

    def _listen(self, event: str, listener: _Listener) -> None:
        self._check_running("on")
        if not callable(listener.fn):
            raise TaskError(f"a listener of event '{event}' is a callable, got {listener.fn!r}")
        with self._changing:
            self._listeners.setdefault(event, []).append(listener)

    def _end_events(self) -> None:
        """Forgets all listeners and wakes all who wait; what they wait for will not come."""
        self._listeners.clear()
        for happened in tuple(self._waiting):
            happened.set()

    def _check_running(self, what: str) -> None:
        """Raises `TaskError` outside of a running task."""
        raise NotImplementedError
