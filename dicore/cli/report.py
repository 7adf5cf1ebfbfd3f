"""How an error looks on the command line."""

from __future__ import annotations

import sys

import click

from dicore.errors import ConfigError, DicoreError


def report(error: DicoreError, *, debug: bool) -> int:
    """Prints an error, a line per problem, and returns its exit code.

    Args:
        error: What was raised.
        debug: Print the traceback too.
    """
    if debug:
        _traceback(error)
    problems = error.problems if isinstance(error, ConfigError) else (error.message,)
    for problem in problems:
        _say(f"error: {problem}")
    if error.hint:
        _say(f"  hint: {error.hint}")
    return error.exit_code


def report_usage(error: click.ClickException, *, debug: bool) -> int:
    """Prints what was wrong with the words on the command line and returns the exit code."""
    if debug:
        _traceback(error)
    _say(f"error: {_text(error)}")
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        _say(f"  hint: {context.command_path} --help")
    return error.exit_code


def _text(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption):
        close = next(iter(error.possibilities or ()), "")
        hint = f"; did you mean '{close}'?" if close else ""
        return f"no such option '{error.option_name}'{hint}"
    text = error.format_message().rstrip(".")
    text = text.replace("valid integer range", "valid integer")
    return text[:1].lower() + text[1:]


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _traceback(error: Exception) -> None:
    import traceback

    traceback.print_exception(error)
