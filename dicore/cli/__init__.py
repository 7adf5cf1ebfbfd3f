"""The command line: `dicore COMMAND …`; a leading option means `train`, with `-m eval` `eval`.

An error that dicore raises on purpose is printed as `error: …`, a line per problem, and ends the
process with the exit code of its class; a traceback is shown with `--debug` or `DICORE_DEBUG=1`.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

__all__ = ["main"]

_OWN = frozenset({"-h", "--help", "--version"})
_SWITCHES = {
    "--debug": "DICORE_DEBUG",
    "--names-only": "DICORE_NAMES_ONLY",
    "--no-plugins": "DICORE_NO_PLUGINS",
    "--strict-plugins": "DICORE_STRICT_PLUGINS",
}
_FILE = "--plugin"
_FAILED = 1
_INTERRUPTED = 130
_READER_GONE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code.

    Args:
        argv: The words after `dicore`; None for those of the process.
    """
    words = sys.argv[1:] if argv is None else argv
    arguments, said = _arguments([*words])  # here `list` is the module of a command
    if said.get("DICORE_PLUGINS", "").endswith(_FILE):
        sys.stderr.write(f"error: {_FILE} needs a file\n")
        return 2
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the caller has closed it: what is said goes nowhere
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if warnings.showwarning.__module__ == "warnings":  # nobody else collects them
        warnings.showwarning = _show_warning
    before = dict(os.environ)
    os.environ.update(said)
    try:
        return _main(arguments)
    finally:
        for name in said:
            os.environ.pop(name)
            os.environ.update({name: before[name]} if name in before else {})


def _main(arguments: list[str]) -> int:
    debug = os.environ.get("DICORE_DEBUG", "") not in ("", "0")
    try:
        code = _run(arguments, debug=debug)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _reader_is_gone():
            raise
        # Python flushes once more at exit; what is left in the buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _READER_GONE
    except OSError as error:
        if not _output_is_lost():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"error: standard output cannot be written: {error.strerror}\n")
        return _FAILED
    return code


def _arguments(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Takes out what holds for every command, and puts the command where there is none.

    Returns:
        The words left, and the variables of the environment that the others stand for.
    """
    end = words.index("--") if "--" in words else len(words)
    kept: list[str] = []
    said: dict[str, str] = {}
    files: list[str] = []
    todo = iter(words[:end])
    for word in todo:
        if word in _SWITCHES:
            said[_SWITCHES[word]] = "1"
        elif word == _FILE or word.startswith(f"{_FILE}="):
            file = word.removeprefix(f"{_FILE}=") if "=" in word else next(todo, "")
            files.append(os.path.abspath(file) if file else _FILE)  # noqa: PTH100 - pathlib is slow here
        else:
            kept.append(word)
    if files:
        held = os.environ.get("DICORE_PLUGINS", "")
        said["DICORE_PLUGINS"] = os.pathsep.join([*filter(None, [held]), *files])
    kept += words[end:]
    if not kept:
        return ["--help"], said
    if kept[0].startswith("-") and kept[0] not in _OWN:
        return _mode(kept), said
    return kept, said


def _mode(words: list[str]) -> list[str]:
    """Puts the command before the documents' form: `-m eval …` evaluates, all else trains."""
    for at, word in enumerate(words):
        if word in ("-m", "--mode") and words[at + 1 : at + 2] == ["eval"]:
            return ["eval", *words[:at], *words[at + 2 :]]
        if word in ("-meval", "--mode=eval"):
            return ["eval", *words[:at], *words[at + 1 :]]
    return ["train", *words]


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Writes a warning of ours as a line for people, any other as Python does."""
    text = f"warning: {message}\n"
    if not category.__module__.startswith("dicore"):
        text = warnings.formatwarning(message, category, filename, lineno, line)
    (file or sys.stderr).write(text)


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


def _output_is_lost() -> bool:
    """Says whether standard output takes nothing any more: a full disk below `> file`."""
    try:
        sys.stdout.flush()
        os.write(sys.stdout.fileno(), b"\n")  # what was refused is not tried again by a flush
    except (OSError, ValueError):
        return True
    return False


def _reader_is_gone() -> bool:
    """Says whether it was standard output that broke, and not a pipe of the program's own."""
    try:
        import select

        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return bool(poll.poll(0))
    except (AttributeError, OSError, ValueError):
        return True
