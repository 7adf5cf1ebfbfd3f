"""Signals ask a run to stop; nothing but a flag is touched inside a handler."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

__all__ = ["StopFlag", "StopNow", "stop_on_signals"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_PREEMPTION: Final = tuple(
    getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name)
)
"""By which a cluster says that it needs the machine; whoever handles them keeps them."""
_HANGUP: Final = tuple(getattr(signal, name) for name in ("SIGHUP",) if hasattr(signal, name))
"""The terminal was closed; `nohup` ignores it, and then so do we."""
_RESUMABLE: Final = 75
"""What schedulers take as: try again (EX_TEMPFAIL of sysexits.h)."""


class StopNow(KeyboardInterrupt):
    """A second signal came: leave without saving.

    Args:
        number: The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by a second {signal.Signals(number).name}")
        self.number = number


class StopFlag:
    """Whether a run has been asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._requested = False

    def __bool__(self) -> bool:
        return self._requested

    def request(self, number: int | None = None) -> None:
        """Asks to finish the present iteration, save and stop; the first asker is remembered."""
        if not self._requested:
            self.signal = number
        self._requested = True

    @property
    def exit_code(self) -> int:
        """130 after SIGINT, 143 after SIGTERM, 129 after SIGHUP, 75 if preempted, else 0."""
        if self.signal in _PREEMPTION:
            return _RESUMABLE
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def stop_on_signals(flag: StopFlag) -> Iterator[StopFlag]:
    """Lets SIGINT and SIGTERM set `flag` within the block; a second one raises `StopNow`.

    A third one ends the process on the spot. SIGHUP, SIGUSR1 and SIGUSR2 set the flag, too, and are
    not counted: the signal that follows a warning must not break the save. Outside of the main
    thread no handler is installed and the flag works all the same.

    Args:
        flag: What the loop of the run looks at.
    """
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    owner = os.getpid()
    free = [each for each in _HANGUP + _PREEMPTION if signal.getsignal(each) is signal.SIG_DFL]
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
        else:
            raise StopNow(number)

    before = {number: signal.signal(number, handle) for number in (*_SIGNALS, *free)}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
