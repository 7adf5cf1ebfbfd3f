"""Lines and tables on standard output, and how much a command prints (`-q`, `-v`).

Standard output may be a terminal, a file, or a pipe whose reader has gone.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    import logging

    import click

__all__ = [
    "Level", "chatter", "discard_stdout", "is_quiet", "is_shared", "is_terminal", "labelled",
    "lost", "number", "own_process", "plain_table", "plural", "printable", "say", "verbosity",
    "write_table",
]  # fmt: skip

Level = Literal["quiet", "normal", "verbose"]
F = TypeVar("F", bound=Callable[..., object])

_STATUS_STYLES = {
    "ok": "green",
    "unavailable": "yellow",
    "deprecated": "yellow",
    "shadowed": "dim",
    "disabled": "dim",
    "incompatible": "red",
    "conflict": "red",
    "broken": "red",
}

HIDDEN = "<redacted>"
"""Replaces a secret."""

_SHORTEST_SECRET = 5  # shorter ones are parts of other words
_secrets: set[str] = set()
_CONTROLS = {
    **{code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))},
    **{code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))},
}

lost: list[OSError] = []
"""Why what was said was not printed: a full disk, not a reader or a terminal that is gone."""
_level: Level = "normal"
_label = ""


def say(text: str, *, result: bool = False) -> None:
    """Prints and flushes a line, unless quiet and not the result, which raises what `lost` has."""
    if is_quiet() and not result:
        return
    try:
        print(_label + printable(text), flush=True)  # noqa: T201 - the one place of dicore that prints
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        say(text.encode(encoding, "backslashreplace").decode(encoding), result=result)
    except OSError as error:  # none of them should end a training
        discard_stdout()
        lost.extend([error] if error.errno not in (errno.EPIPE, errno.EIO) else [])
    if result and lost:
        raise lost[0]


def printable(text: str) -> str:
    """Returns a text with control characters escaped, which could rewrite the terminal."""
    return without_secrets(text).translate(_CONTROLS)


def hide(text: str) -> None:
    """Leaves a secret out of all that this process prints from now on, and of errors."""
    if len(text) >= _SHORTEST_SECRET:
        _secrets.add(text)


def without_secrets(text: str) -> str:
    """Returns a text without the secrets that `hide` was told."""
    for secret in _secrets:
        text = text.replace(secret, HIDDEN)
    return text


def number(value: float) -> str:
    """Formats a return with one decimal, with two if it is small: 500.0, 12.3, 0.85, 1.2e+30."""
    if abs(value) >= 1e9:
        return f"{value:.4g}"
    return f"{value:.{1 if abs(value) >= 10 or value == round(value, 1) else 2}f}"


def plural(count: int, noun: str) -> str:
    """Returns `1 run`, `2 runs` or `no runs`."""
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


def write_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int] = ()
) -> None:
    """Prints a table: with rich on a terminal, else as plain columns; `numbers` align right."""
    rows = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _write_rich(header, rows, numbers)
        return
    sys.stdout.write(plain_table(header, rows, numbers) + "\n")


def plain_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int] = ()
) -> str:
    """Returns a table as lines of text; arguments as in `write_table`."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _write_rich(
    header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int]
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, title in enumerate(header):
        justify: Literal["left", "right"] = "right" if index in numbers else "left"
        table.add_column(title, no_wrap=index == 0, overflow="fold", justify=justify)
    for row in rows:
        table.add_row(*(Text(cell, style=_STATUS_STYLES.get(cell, "")) for cell in row))
    Console().print(table)


def is_quiet() -> bool:
    """Returns whether only results and errors are printed."""
    return _level == "quiet"


def is_shared() -> bool:
    """Returns whether other processes print to the same standard output."""
    return _label != ""


def is_terminal() -> bool:
    """Returns whether stdout is a terminal on which lines can be redrawn."""
    ours = not is_quiet() and not is_shared()
    isatty = getattr(sys.stdout, "isatty", bool)  # without a console, stdout is None
    return ours and isatty() and os.environ.get("TERM", "") != "dumb"


def formatter(form: str) -> logging.Formatter:
    """Returns a formatter of log records that leaves out secrets."""
    import logging

    class Clean(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return without_secrets(super().format(record))

    return Clean(form)


def own_process() -> None:
    """Writes log records that nobody handles to stderr as `warning: …`, like a command."""
    import logging

    class Lowercase(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return f"{record.levelname.lower()}: {printable(super().format(record))}"

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Lowercase())


@contextmanager
def chatter(level: Level, label: str = "") -> Iterator[None]:
    """Sets how much the process prints within a block, and a prefix of each line.

    `quiet`: only results and errors; `verbose`: also every log record of dicore and of the packages
    that provide components, on stderr.
    """
    import logging

    global _level  # noqa: PLW0603 - one process, one level
    before, _level = _level, level
    loggers = [logging.getLogger(name) for name in (_packages() if level != "normal" else ())]
    levels = {each: each.level for each in loggers}
    handler = logging.StreamHandler()
    handler.setFormatter(formatter("%(levelname)-7s %(name)s: %(message)s"))
    root = logging.getLogger()
    with warnings.catch_warnings():
        if level == "quiet":
            warnings.simplefilter("ignore")
        if level == "verbose":
            root.addHandler(handler)
        for each in loggers:
            each.setLevel(logging.DEBUG if level == "verbose" else logging.ERROR)
        try:
            with labelled(label):
                yield
        finally:
            _level = before
            root.removeHandler(handler)
            for each, level_before in levels.items():
                each.setLevel(level_before)


@contextmanager
def labelled(label: str) -> Iterator[None]:
    """Puts a prefix before each line within a block."""
    global _label  # noqa: PLW0603 - one process, one output
    before, _label = _label, label
    try:
        yield
    finally:
        _label = before


def verbosity(command: F) -> F:
    """Adds `-v/--verbose` and `-q/--quiet` to a command; its function receives neither."""
    import click

    for flags, text in (
        (("-q", "--quiet"), "Print only the result and errors."),
        (("-v", "--verbose"), "Also print the log records of all components, on stderr."),
    ):
        add = click.option(
            *flags, is_flag=True, expose_value=False, callback=_set_verbosity, help=text
        )
        command = add(command)
    return command


def _set_verbosity(ctx: click.Context, param: click.Parameter, chosen: bool) -> None:
    if not chosen:
        return
    other = ctx.meta.setdefault("dicore.verbosity", param.name)
    if other != param.name:
        from dicore.errors import UsageError

        raise UsageError("--verbose and --quiet are mutually exclusive")
    ctx.with_resource(chatter("quiet" if param.name == "quiet" else "verbose"))


def _packages() -> set[str]:
    """Returns the root packages of all components, and dicore."""
    from dicore_registry import default

    packages = {entry.module.partition(".")[0] for entry in default().entries()}
    return {"dicore", *filter(None, packages)}


def discard_stdout() -> None:
    """Redirects stdout to the null device, so that the flush at exit cannot fail either."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    finally:
        os.close(nowhere)
