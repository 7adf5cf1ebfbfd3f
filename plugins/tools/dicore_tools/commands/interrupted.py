"""Says what a signal that ended a command left of the files that it writes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from dicore.console import printable
from dicore.run.signals import StopNow

__all__ = ["says_what_was_saved"]

P = ParamSpec("P")
R = TypeVar("R")
_BY_SIGNAL: Final = (129, 130, 143)
_SHOWN: Final = 3


def says_what_was_saved(*options: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Returns a decorator of a command that prints one line when a signal ends it.

    Args:
        options: Names of its options that name an output file or folder.
    """

    def decorator(command: Callable[P, R]) -> Callable[P, R]:
        @wraps(command)
        def saying(*args: P.args, **given: P.kwargs) -> R:
            places = [str(each) for name in options if (each := given.get(name))]
            before = _files(places)
            try:
                return command(*args, **given)
            except (KeyboardInterrupt, SystemExit) as stop:
                if isinstance(stop, KeyboardInterrupt) or stop.code in _BY_SIGNAL:
                    told = _told(sorted(path for path, _ in _files(places) - before))
                    sys.stderr.write(printable(f"interrupted: {told}") + "\n")
                if isinstance(stop, KeyboardInterrupt):  # told: nothing else is to be said
                    number = stop.number if isinstance(stop, StopNow) else signal.SIGINT
                    raise SystemExit(128 + number) from None
                raise

        return saying

    return decorator


def _files(places: list[str]) -> set[tuple[str, int]]:
    """Returns the finished files at these places, with the times of their last change."""
    found: set[tuple[str, int]] = set()
    for place in map(Path, places):
        for each in (*([place] if place.is_file() else ()), *place.glob("[!.]*")):
            with suppress(OSError):  # it is gone by now
                found.add((str(each), each.lstat().st_mtime_ns))
    return found


def _told(saved: list[str]) -> str:
    if not saved:
        return "nothing was saved"
    more = f" and {len(saved) - _SHOWN} more" if len(saved) > _SHOWN else ""
    return f"saved until then: {', '.join(saved[:_SHOWN])}{more}"
