"""The command line: `dicore COMMAND …`; a leading option means `train`.

An error that dicore raises on purpose is printed as `error: …`, a line per problem, and ends the
process with the exit code of its class; a traceback is shown with `--debug` or `DICORE_DEBUG=1`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]

_OWN = frozenset({"-h", "--help", "--version"})
_INTERRUPTED = 130
_READER_GONE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code.

    Args:
        argv: The words after `dicore`; None for those of the process.
    """
    arguments, debug = _arguments(list(sys.argv[1:] if argv is None else argv))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        code = _run(arguments, debug=debug)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _reader_is_gone():
            raise
        # Python flushes once more at exit; what is left in the buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _READER_GONE
    return code


def _arguments(words: list[str]) -> tuple[list[str], bool]:
    """Takes `--debug` out, wherever it stands, and puts the command where there is none."""
    ours = words.index("--") if "--" in words else len(words)
    kept = [word for word in words[:ours] if word != "--debug"] + words[ours:]
    debug = len(kept) < len(words) or os.environ.get("DICORE_DEBUG", "") not in ("", "0")
    if not kept:
        return ["--help"], debug
    if kept[0].startswith("-") and kept[0] not in _OWN:
        return ["train", *kept], debug
    return kept, debug


def _run(arguments: list[str], *, debug: bool) -> int:
    import click

    from dicore.cli.group import group
    from dicore.cli.report import report, report_usage
    from dicore_registry.errors import DicoreError

    try:
        with group.make_context("dicore", arguments) as context:
            group.invoke(context)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except DicoreError as error:
        return report(error, debug=debug)
    except click.ClickException as error:
        return report_usage(error, debug=debug)
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    return 0


def _reader_is_gone() -> bool:
    """Says whether it was standard output that broke, and not a pipe of the program's own."""
    try:
        import select

        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return bool(poll.poll(0))
    except (AttributeError, OSError, ValueError):
        return True
