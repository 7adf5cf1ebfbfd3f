"""Tables for people: plain columns where output is piped, rich ones on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Literal

_STYLES = {
    "ok": "green",
    "unavailable": "yellow",
    "deprecated": "yellow",
    "shadowed": "dim",
    "disabled": "dim",
    "incompatible": "red",
    "conflict": "red",
    "broken": "red",
}


def write_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int] = ()
) -> None:
    """Writes rows below a header to standard output; rich is imported for a terminal only.

    Args:
        header: A title for each column.
        rows: The cells.
        numbers: Indices of the columns that are flush right.
    """
    if sys.stdout.isatty():
        _write_rich(header, rows, numbers)
        return
    sys.stdout.write(plain_table(header, rows, numbers) + "\n")


def plain_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int] = ()
) -> str:
    """Returns rows below a header as lines of text, for files and pipes.

    Args:
        header: A title for each column.
        rows: The cells.
        numbers: Indices of the columns that are flush right.
    """
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
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console().print(table)
