"""Tables for people: plain columns where output is piped, rich ones on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

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


def write_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Writes rows below a header to standard output; rich is imported for a terminal only."""
    if sys.stdout.isatty():
        _write_rich(header, rows)
        return
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header) - 1)]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        sys.stdout.write("  ".join([*cells, line[-1]]).rstrip() + "\n")


def _write_rich(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, title in enumerate(header):
        table.add_column(title, no_wrap=index == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console().print(table)
