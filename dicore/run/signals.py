"""Signals that stop a run: the handlers only set a flag."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from dicore.console import is_quiet, is_shared

__all__ = ["StopFlag", "StopNow", "stop_on_signals"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_PREEMPTION: Final = tuple(
    getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name)
)
"""Preemption signals of clusters; existing handlers stay in place."""
_STOPPING: Final = b"stopping when this iteration ends; once more: at once, without saving\n"
_HANGUP: Final = tuple(getattr(signal, name) for name in ("SIGHUP",) if hasattr(signal, name))
"""The terminal was closed; under `nohup` the signal stays ignored."""
_EX_TEMPFAIL: Final = 75
"""Exit code after which schedulers try again (EX_TEMPFAIL of sysexits.h)."""


class StopNow(KeyboardInterrupt):
    """A second signal, by its number: exit without saving."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by a second {signal.Signals(number).name}")
        self.number = number


class StopFlag:
    """Whether a stop was requested, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._requested = False

    def __bool__(self) -> bool:
        return self._requested

    def request(self, number: int | None = None) -> None:
        """Requests to finish the present iteration, save and stop; keeps the first signal."""
        if not self._requested:
            self.signal = number
        self._requested = True

    @property
    def exit_code(self) -> int:
        """130 after SIGINT, 143 after SIGTERM, 129 after SIGHUP, 75 if preempted, else 0."""
        if self.signal in _PREEMPTION:
            return _EX_TEMPFAIL
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def stop_on_signals(flag: StopFlag) -> Iterator[StopFlag]:
    """Within the block, SIGINT and SIGTERM set `flag`; a second signal raises `StopNow`.

    A third one kills the process. SIGHUP, SIGUSR1 and SIGUSR2 also set the flag but are not
    counted: a signal that follows a preemption warning must not interrupt the save. Outside of the
    main thread no handlers are installed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    owner = os.getpid()
    free = [each for each in _HANGUP + _PREEMPTION if (now := signal.getsignal(each)) is
            signal.SIG_DFL or getattr(now, "until_run", False)]  # fmt: skip
    received = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal received
        if number in free:
            flag.request(number)
            return
        received += 1
        if os.getpid() != owner or received > 2:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif received == 1:
            flag.request(number)
            if not is_quiet() and not is_shared():
                os.write(2, _STOPPING)  # a stream may be in the middle of a write
        else:
            raise StopNow(number)

    before = {number: signal.signal(number, handle) for number in (*_SIGNALS, *free)}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
