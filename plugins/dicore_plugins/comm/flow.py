"""What the coordinator has between collectors and learner: blocks, the buffer over them, the ratio.

Shapes: n samples of a block, B samples of a demand.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from dicore.data import Batch
from dicore.errors import DicoreError, UsageError

__all__ = ["BlockBuffer", "Ratio"]

_LOG = logging.getLogger("dicore.comm")
_KEEP_S: Final = 10.0
"""Seconds for which a file stays after its samples have left the buffer: a learner may read it."""


class BlockBuffer:
    """A replay buffer over the metadata of samples, whose bodies are in files.

    Args:
        buffer: Replay buffer (`naive`, `advanced`), which stores block and row of each sample.
        folder: Folder of the files; those of samples that left the buffer are removed.
        batch_size: Samples of a batch.
    """

    def __init__(self, buffer: Any, folder: Path, batch_size: int) -> None:
        self._buffer, self._folder, self._batch_size = buffer, folder, batch_size
        self._names: dict[int, str] = {}
        self._ends: deque[tuple[int, int]] = deque()
        self._leaving: deque[tuple[float, str]] = deque()
        self._pushed = self._number = 0
        self._lock = threading.Lock()

    def push(self, meta: Mapping[str, Any]) -> None:
        """Stores the metadata of a block."""
        count = int(meta["count"])
        with self._lock:
            number, self._number = self._number, self._number + 1
            self._names[number] = str(meta["file_path"])
            self._pushed += count
            self._ends.append((self._pushed, number))
            block = np.full(count, number, np.int64)
            self._buffer.push(Batch({"block": block, "row": np.arange(count)}, count))
            self._drop()

    def count(self) -> int:
        """Number of samples."""
        return int(self._buffer.count())

    def sample(self, size: int, train_iter: int) -> list[dict[str, Any]]:
        """Draws B samples, batch by batch; returns their metadata by block.

        Returns:
            See `BlockCache.gather`; the first has the further columns of the buffer's samples.
        """
        with self._lock:
            few = self._buffer.count() < self._batch_size
            rounds = max(1, size // self._batch_size)
            drawn = [
                self._buffer.sample_batch(self._batch_size, train_iter, replace=few)
                for _ in range(rounds)
            ]
            refused = next((each for each in drawn if not each), None)
            if refused is not None:
                raise UsageError(f"the buffer refuses: {getattr(refused, 'reason', refused)}")
            columns = {
                key: np.concatenate([np.asarray(each[key]) for each in drawn])
                for key in tuple(drawn[0].keys())
            }
            return self._by_block(columns)

    def update(self, info: Mapping[str, Any]) -> None:
        """Stores priorities of drawn samples."""
        if info:
            with self._lock:
                self._buffer.update(info)

    def _by_block(self, columns: dict[str, Any]) -> list[dict[str, Any]]:
        blocks, rows = columns.pop("block"), columns.pop("row")
        order = np.argsort(blocks, kind="stable")
        numbers, starts = np.unique(blocks[order], return_index=True)
        pieces = np.split(order, starts[1:])
        metas: list[dict[str, Any]] = [
            {"file_path": self._names[int(number)], "row": rows[piece], "at": piece}
            for number, piece in zip(numbers, pieces, strict=True)
        ]
        metas[0]["columns"] = columns
        return metas

    def _drop(self) -> None:
        """Removes the files of blocks of which no sample is left."""
        now, oldest = time.monotonic(), self._pushed - self._buffer.replay_buffer_size
        while self._ends and self._ends[0][0] <= oldest:
            name = self._names.pop(self._ends.popleft()[1])
            self._leaving.append((now, name))
        while self._leaving and self._leaving[0][0] < now - _KEEP_S:
            (self._folder / self._leaving.popleft()[1]).unlink(missing_ok=True)


class Ratio:
    """Keeps updates and collected samples in proportion: whoever is ahead waits.

    Args:
        per_sample: Updates per sample.
        ahead: Updates by which collecting may be ahead of learning.
        stall_s: Seconds after which a wait is an error.

    Attributes:
        samples: Samples collected so far.
        updates: Updates made so far.
    """

    def __init__(self, per_sample: float, ahead: float, stall_s: float) -> None:
        self._per_sample, self._ahead, self._stall_s = per_sample, ahead, stall_s
        self.samples = self.updates = 0
        self._changed = threading.Condition()

    def collected(self, count: int) -> None:
        """Adds samples."""
        with self._changed:
            self.samples += count
            self._changed.notify_all()

    def learned(self, updates: int) -> None:
        """Sets the number of updates."""
        with self._changed:
            self.updates = max(self.updates, updates)
            self._changed.notify_all()

    def wait_to_learn(self, is_ready: Callable[[], bool], stopped: Callable[[], bool]) -> bool:
        """Waits until the next updates may be made; returns False if stopped."""
        return self._wait(
            lambda: is_ready() and self.updates <= self.samples * self._per_sample,
            stopped,
            "the learner waits for samples",
        )

    def wait_to_collect(self, is_ready: Callable[[], bool], stopped: Callable[[], bool]) -> bool:
        """Waits until collecting may go on; returns False if stopped."""
        return self._wait(
            lambda: not is_ready() or self._lead() <= self._ahead,
            stopped,
            "a collector waits for the learner",
        )

    def _lead(self) -> float:
        return self.samples * self._per_sample - self.updates

    def _wait(self, holds: Callable[[], bool], stopped: Callable[[], bool], what: str) -> bool:
        start, told = time.monotonic(), False
        with self._changed:
            while not stopped():
                if holds():
                    return True
                self._changed.wait(0.2)
                waited = time.monotonic() - start
                if waited > 10 and not told:
                    told = True
                    _LOG.warning("%s: %s", what, self)
                if waited > self._stall_s:
                    raise DicoreError(f"{what} for {waited:.0f} s: {self}")
        return False

    def __str__(self) -> str:
        wanted = math.floor(self.samples * self._per_sample)
        return f"{self.samples} samples, {self.updates} updates of {wanted}"
