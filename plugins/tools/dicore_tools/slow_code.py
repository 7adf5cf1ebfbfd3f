"""Names the line at which code of others is, if it runs long: an endless loop is not silent."""

from __future__ import annotations

import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dicore.errors import ConfigWarning

__all__ = ["named_if_slow"]


@contextmanager
def named_if_slow(what: str, seconds: float, file: Path | None = None) -> Iterator[None]:
    """Warns if the block takes long, with the line that it is at; it is not ended.

    Args:
        what: What runs, for the message.
        seconds: Time after which the warning comes.
        file: The file whose line is named; None: that of the innermost call.
    """
    here = threading.get_ident()

    def tell() -> None:
        frame = sys._current_frames().get(here)  # noqa: SLF001 - public, says its documentation
        stack = [(each.filename, each.lineno) for each in traceback.extract_stack(frame)]
        lines = [each for each in stack if file is None or each[0] == str(file)]
        place = "{}:{}".format(*lines[-1]) if lines else str(file)
        text = f"{place}: {what} is still running after {seconds:g} s; Ctrl-C ends it"
        with suppress(ConfigWarning):  # the block may turn warnings into errors
            warnings.warn(text, ConfigWarning, stacklevel=2)

    timer = threading.Timer(seconds, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
