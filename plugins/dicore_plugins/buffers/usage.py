"""How a buffer is used: rows in and out per second, and rows that nobody ever drew."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from dicore.errors import UsageError
from dicore_plugins.buffers.ring import IntArray

_LOG = logging.getLogger("dicore.buffer")


class Usage:
    """Counts for the log; costs two additions per call where rows are not tracked.

    Args:
        capacity: Rows of the ring.
        tracked: Count how often each row is drawn.
        period: Seconds between log lines; None: none.
        log: Where they go besides `logging`; None: nowhere.
    """

    def __init__(
        self, capacity: int, *, tracked: bool, period: float | None, log: Any | None = None
    ) -> None:
        self._capacity = capacity
        self._times = np.full(capacity, -1, np.int64) if tracked else None
        self._period = period
        self._log = log
        self._since = time.monotonic()
        self._rows_in = self._rows_out = 0
        self.never_drawn = 0

    def pushed(self, ids: range) -> None:
        """Takes the ids of new rows; the rows that stood in their slots are gone."""
        self._rows_in += len(ids)
        if self._times is not None:
            slots = np.arange(max(ids.start, ids.stop - self._capacity), ids.stop) % self._capacity
            self.never_drawn += int((self._times[slots] == 0).sum())
            self._times[slots] = 0

    def drawn(self, slots: IntArray) -> None:
        """Takes the slots of a draw, and writes the log line when it is due."""
        self._rows_out += len(slots)
        if self._times is not None:
            np.add.at(self._times, slots, 1)
        if self._period is not None and time.monotonic() - self._since >= self._period:
            self._tell()

    def counts(self, slots: IntArray) -> IntArray:
        """Returns how often the rows in `slots` were drawn: int64, the same shape.

        Raises:
            UsageError: rows are not tracked.
        """
        if self._times is None:
            raise UsageError("rows are not tracked", hint="set enable_track_used_data=True")
        return self._times[slots]

    def state_dict(self) -> dict[str, Any]:
        """Returns what is counted of the rows held; nothing where rows are not tracked."""
        if self._times is None:
            return {}
        return {"use_times": self._times, "never_drawn": self.never_drawn}

    def load_state_dict(self, state: Mapping[str, Any], held: int) -> None:
        """Restores what `state_dict` returned.

        Args:
            state: It may come from a buffer that did not track: then counting begins.
            held: Rows held, in the first slots.
        """
        if self._times is None:
            return
        self._times.fill(-1)
        self._times[:held] = np.asarray(state.get("use_times", np.zeros(held)))[:held]
        self.never_drawn = int(state.get("never_drawn", 0))

    def _tell(self) -> None:
        now = time.monotonic()
        seconds = now - self._since
        lost = "" if self._times is None else f", {self.never_drawn} rows left without being drawn"
        pushed, drawn = self._rows_in / seconds, self._rows_out / seconds
        line = f"{pushed:.0f} rows/s pushed, {drawn:.0f} rows/s drawn{lost}"
        _LOG.info("%s", line)
        if self._log is not None:
            self._log.log_text(line, channel="buffer")
        self._rows_in = self._rows_out = 0
        self._since = now
