"""Keeps standard output for JSON, whatever is printed meanwhile."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

__all__ = ["to_standard_error"]


@contextmanager
def to_standard_error() -> Iterator[None]:
    """Sends what is printed in the block to standard error, also by processes that it starts."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # closed by the caller
        kept = -1
    else:
        os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept >= 0:
            os.dup2(kept, 1)
            os.close(kept)
