"""Writes what a command generates to a file or to standard output."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dicore.console import say
from dicore.errors import UsageError

__all__ = ["rate_text", "write_json", "write_output"]


def rate_text(rate: float) -> str:
    """Returns a rate in whole numbers, with two digits if it is small: 1,234, 9.6, 0.052."""
    return f"{rate:,.0f}" if rate >= 9.95 or not rate else f"{rate:.2g}"


def write_json(value: object) -> None:
    """Prints what `--json` prints, which its TypedDict declares."""
    say(json.dumps(value, indent=1, allow_nan=False), result=True)


def write_output(text: str, out: str | None, note: str = "") -> None:
    """Writes a text to a file and prints its name; without a file, prints the text.

    Missing folders are made, as for every output file of the package.

    Args:
        text: The text.
        out: The file; None: standard output.
        note: Added to the name of the file in the printed line.

    Raises:
        UsageError: the file cannot be written.
    """
    if out is None:
        sys.stdout.write(text)
        return
    try:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        Path(out).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out: cannot write {out}: {error.strerror}") from error
    sys.stdout.write(f"{out}{note}\n")
