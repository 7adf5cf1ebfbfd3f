"""The command line: `dicore COMMAND …`; a leading option means `train`; with `-m eval`, `eval`.

`-q` and `-v` may stand before the command.

Errors raised by dicore are printed as `error: …`, one line per problem; the exit code is that of
the exception class. `--debug` or `DICORE_DEBUG=1` shows the traceback.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from dicore.console import discard_stdout, lost, printable, without_secrets

if TYPE_CHECKING:
    import click

    from dicore.errors import DicoreError

__all__ = ["main", "report"]

_GROUP_OPTIONS = frozenset({"-h", "--help", "--version"})
_SWITCHES = {
    "--debug": "DICORE_DEBUG",
    "--names-only": "DICORE_NAMES_ONLY",
    "--no-plugins": "DICORE_NO_PLUGINS",
    "--strict-plugins": "DICORE_STRICT_PLUGINS",
}
_PLUGIN_OPTION = "--plugin"
_LOUDNESS = frozenset({"-q", "--quiet", "-v", "--verbose"})
_FAILED = 1
_INTERRUPTED = 130
_BROKEN_PIPE = 141
_COLOUR = re.compile(r"\x1b\[\d*m(WARN: )?")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code.

    Args:
        argv: The words after `dicore`; None takes those of the process.
    """
    words = sys.argv[1:] if argv is None else argv
    arguments, variables = _arguments([*words])  # `list` is the module of a command here
    if variables.get("DICORE_PLUGINS", "").endswith(_PLUGIN_OPTION):
        sys.stderr.write(f"error: {_PLUGIN_OPTION} needs a file\n")
        return 2
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: discard the output
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if warnings.showwarning.__module__ == "warnings":  # not replaced by the caller
        warnings.showwarning = _show_warning
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        return _main(_with_command(arguments))
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        for name in variables:
            os.environ.pop(name)
            os.environ.update({name: before[name]} if name in before else {})


def _main(arguments: list[str]) -> int:
    debug = os.environ.get("DICORE_DEBUG", "") not in ("", "0")
    try:
        code = _run(arguments, debug=debug)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _stdout_is_closed():
            raise
        discard_stdout()
        return _BROKEN_PIPE
    except OSError as error:
        if error not in lost and not _stdout_fails():
            raise
        discard_stdout()
        lost.clear()
        sys.stderr.write(f"error: cannot write to standard output: {error.strerror}\n")
        return _FAILED
    return code


def _arguments(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Splits off the options of every command.

    Returns:
        The other words, and the environment variables that the options set.
    """
    end = words.index("--") if "--" in words else len(words)
    others: list[str] = []
    variables: dict[str, str] = {}
    files: list[str] = []
    rest = iter(words[:end])
    for word in rest:
        if word in _SWITCHES:
            variables[_SWITCHES[word]] = "1"
        elif word == _PLUGIN_OPTION or word.startswith(f"{_PLUGIN_OPTION}="):
            file = word.removeprefix(f"{_PLUGIN_OPTION}=") if "=" in word else next(rest, "")
            files.append(os.path.abspath(file) if file else _PLUGIN_OPTION)  # noqa: PTH100 - pathlib is slow here
        else:
            others.append(word)
    if files:
        before = os.environ.get("DICORE_PLUGINS", "")
        variables["DICORE_PLUGINS"] = os.pathsep.join([*filter(None, [before]), *files])
    others += words[end:]
    return others, variables


def _with_command(words: list[str]) -> list[str]:
    """Adds the command to DI-engine's form: `-m eval …` means `eval`, everything else `train`."""
    if not words:
        return ["--help"]
    if not words[0].startswith("-") or words[0] in _GROUP_OPTIONS:
        return words
    for at, word in enumerate(words):
        if word in ("-m", "--mode") and words[at + 1 : at + 2] in (["eval"], ["dist"]):
            return [words[at + 1], *words[:at], *words[at + 2 :]]
        if word in ("-meval", "--mode=eval", "-mdist", "--mode=dist"):
            return [word[-4:], *words[:at], *words[at + 1 :]]
    count = next((at for at, word in enumerate(words) if word not in _LOUDNESS), len(words))
    if is_command(*words[count : count + 1]):  # dicore -q eval RUN
        end = words.index("--") if "--" in words else len(words)
        return [*words[count:end], *words[:count], *words[end:]]
    return ["train", *words]


def is_command(word: str = "") -> bool:
    """Returns whether an installed package has a command of this name."""
    from dicore_registry import default

    return any(each.name == word.replace("-", "_") for each in default().entries("command"))


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Prints warnings as `warning: …`, those of other packages with their place."""
    text = _COLOUR.sub("", str(message))
    if not category.__module__.startswith("dicore"):
        text += f" ({category.__name__} at {filename}:{lineno})"
    (file or sys.stderr).write(f"warning: {printable(text)}\n")


def _run(arguments: list[str], *, debug: bool) -> int:
    import click

    from dicore.cli.group import group
    from dicore_registry.errors import DicoreError

    try:
        with group.make_context("dicore", [*arguments]) as context:
            context.meta["dicore.words"] = arguments
            group.invoke(context)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except DicoreError as error:
        return report(error, debug=debug, words=arguments)
    except click.ClickException as error:
        return _report_usage(error, debug=debug)
    except click.Abort:
        return _INTERRUPTED
    return 0


def report(error: DicoreError, *, debug: bool, words: Sequence[str] = ()) -> int:
    """Prints an error, one line per problem, and returns its exit code.

    Args:
        error: The error.
        debug: Also print the traceback.
        words: The command, to which a hint may add an option; none: the hint stays as it is.
    """
    hint = error.hint
    if words and hint.startswith("--trust"):
        import shlex

        hint = f"if you trust it: {shlex.join(['dicore', *words, '--trust'])}"
    _print_error(error, getattr(error, "problems", (error.message,)), hint, debug)
    return error.exit_code


def _report_usage(error: click.ClickException, *, debug: bool) -> int:
    context = getattr(error, "ctx", None)
    hint = f"{context.command_path} --help" if context is not None else ""
    _print_error(error, (_usage_message(error),), hint, debug)
    return error.exit_code


def _usage_message(error: click.ClickException) -> str:
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities"):
        return f"no such option '{option}'{_meant(error)}"
    text = error.format_message().rstrip(".")
    text = text.replace("valid integer range", "valid integer")
    return text[:1].lower() + text[1:]


def _meant(error: Any) -> str:
    """Returns the end of a message about an unknown option: which one may be meant."""
    from dicore_registry.errors import RegistryError
    from dicore_registry.public_names import public_name

    with suppress(AttributeError, RegistryError):  # the table comes with another package
        return str(public_name("meant_flag")(error))
    close = next(iter(error.possibilities or ()), "")
    return f"; did you mean '{close}'?" if close else ""


def _print_error(error: Exception, problems: Sequence[str], hint: str, debug: bool) -> None:
    if debug:
        import traceback

        sys.stderr.write(without_secrets("".join(traceback.format_exception(error))))
    for problem in problems:
        sys.stderr.write(f"error: {printable(problem)}\n")
    if hint:
        sys.stderr.write(f"  hint: {printable(hint)}\n")


def _stdout_fails() -> bool:
    """Returns whether standard output cannot be written, for example because the disk is full."""
    try:
        sys.stdout.flush()
        os.write(sys.stdout.fileno(), b"\n")  # flush does not retry what was refused
    except (OSError, ValueError):
        return True
    return False


def _stdout_is_closed() -> bool:
    """Returns whether the reader of standard output is gone, rather than that of another pipe."""
    try:
        import select

        poll = select.poll()  # type: ignore[attr-defined,unused-ignore] # not on Windows
        poll.register(sys.stdout.fileno(), 0)
        return bool(poll.poll(0))
    except (AttributeError, OSError, ValueError):
        return True
