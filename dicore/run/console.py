"""Lines for people on stdout, which may be a terminal, a file, or a pipe that nobody reads."""

from __future__ import annotations

import os
import sys

__all__ = ["is_terminal", "say"]


def say(text: str) -> None:
    """Prints a line at once; once the reader has gone (`| head`), lines vanish quietly."""
    try:
        print(text, flush=True)  # noqa: T201 - this is what a command says
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        say(text.encode(encoding, "backslashreplace").decode(encoding))
    except BrokenPipeError:
        _discard_stdout()


def is_terminal() -> bool:
    """Says whether stdout is a terminal that can redraw lines."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") != "dumb"


def _discard_stdout() -> None:
    """Points stdout nowhere, so that the interpreter's last flush cannot fail either."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    finally:
        os.close(nowhere)
