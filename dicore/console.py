"""Lines for people on stdout, which may be a terminal, a file, or a pipe that nobody reads."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

__all__ = [
    "Level",
    "chatter",
    "is_quiet",
    "is_shared",
    "is_terminal",
    "number",
    "own_process",
    "say",
]

Level = Literal["quiet", "normal", "verbose"]

_level: Level = "normal"
_label = ""


def say(text: str, *, result: bool = False) -> None:
    """Prints a line at once; where nobody can read it any more (`| head`), it vanishes quietly.

    Args:
        text: The line.
        result: It is what the command was run for, and printed also when it should be quiet.
    """
    if is_quiet() and not result:
        return
    try:
        print(_label + text, flush=True)  # noqa: T201 - this is what a command says
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        say(text.encode(encoding, "backslashreplace").decode(encoding), result=result)
    except OSError:  # no reader, no terminal, no room: none of it should end a training
        _discard_stdout()


def number(value: float) -> str:
    """Writes a return with as many decimals as tell it from the next: 500.0, 12.3, 0.85."""
    return f"{value:.{1 if abs(value) >= 10 or value == round(value, 1) else 2}f}"


def is_quiet() -> bool:
    """Says whether results and errors alone are wanted."""
    return _level == "quiet"


def is_shared() -> bool:
    """Says whether other processes speak on the same stdout."""
    return _label != ""


def is_terminal() -> bool:
    """Says whether stdout is a terminal that can redraw lines."""
    ours = not is_quiet() and not is_shared()
    isatty = getattr(sys.stdout, "isatty", bool)  # without a console, stdout is None
    return ours and isatty() and os.environ.get("TERM", "") != "dumb"


class _Levelled(logging.Formatter):
    """Writes `warning: …`, as commands do."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {super().format(record)}"


def own_process() -> None:
    """What parts log goes to stderr in the form of a command's own warnings.

    For a process that is ours; where somebody set up logging, that stays.
    """
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Levelled())


@contextmanager
def chatter(level: Level, label: str = "") -> Iterator[None]:
    """Lets the process say more or less within a block.

    Args:
        level: `quiet`: results and errors alone; `verbose`: also all that dicore and the packages
            of its components log, on stderr; `normal`: as ever.
        label: Put before each line, where other processes speak on the same stdout.
    """
    global _label, _level
    before, (_level, _label) = (_level, _label), (level, label)
    loggers = [logging.getLogger(name) for name in (_packages() if level != "normal" else ())]
    levels = {each: each.level for each in loggers}
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)-7s %(name)s: %(message)s"))
    root = logging.getLogger()
    with warnings.catch_warnings():
        if level == "quiet":
            warnings.simplefilter("ignore")
        if level == "verbose":
            root.addHandler(handler)
        for each in loggers:
            each.setLevel(logging.DEBUG if level == "verbose" else logging.ERROR)
        try:
            yield
        finally:
            _level, _label = before
            root.removeHandler(handler)
            for each, level_before in levels.items():
                each.setLevel(level_before)


def _packages() -> set[str]:
    """Returns the names of all packages that components come from, dicore itself among them."""
    from dicore_registry import default

    packages = {entry.module.partition(".")[0] for entry in default().entries()}
    return {"dicore", *filter(None, packages)}


def _discard_stdout() -> None:
    """Points stdout nowhere, so that the interpreter's last flush cannot fail either."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    finally:
        os.close(nowhere)
