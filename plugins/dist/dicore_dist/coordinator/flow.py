"""Between collectors and learner of off-policy training: blocks, the buffer over them, the ratio.

Shapes: n samples of a block, B samples of a demand.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dicore.config import RunConfig
from dicore.data import Batch, Columns
from dicore.errors import DicoreError
from dicore_dist.commands.config import system_of
from dicore_dist.coordinator.rounds import Share
from dicore_dist.links.exchange import Store
from dicore_plugins.middleware.learn import warn_of_refusal

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer
    from dicore_dist.links.blocks import BlockMeta

__all__ = ["BlockBuffer", "Ratio", "Replay", "Worth"]

_LOG = logging.getLogger("dicore.comm")
_KEEP_S: Final = 10.0
"""Seconds for which a file stays after its samples have left the buffer: a learner may read it."""


class BlockBuffer:
    """A replay buffer over the metadata of samples, whose bodies are in a store.

    Args:
        buffer: Replay buffer (`naive`, `advanced`), which stores block and row of each sample.
        store: Where the samples are; those that left the buffer are removed.
        batch_size: Samples of a batch.
    """

    def __init__(self, buffer: IBuffer, store: Store, batch_size: int) -> None:
        self._buffer, self._store, self._batch_size = buffer, store, batch_size
        self._names: dict[int, str] = {}
        self._ends: deque[tuple[int, int]] = deque()
        self._leaving: deque[tuple[float, str]] = deque()
        self._pushed = self._number = 0
        self._told = False
        self._lock = threading.Lock()

    def push(self, meta: BlockMeta) -> None:
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

    def sample(self, size: int, train_iter: int) -> list[BlockMeta]:
        """Draws B samples, batch by batch; returns their metadata by block.

        Returns:
            See `BlockCache.gather`; the first has the further columns of the buffer's samples. They
            are of fewer batches, or none, if the buffer refuses to draw.
        """
        with self._lock:
            few = self._buffer.count() < self._batch_size
            rounds = max(1, size // self._batch_size)
            drawn: list[Batch] = []
            for _ in range(rounds):
                found = self._buffer.sample_batch(self._batch_size, train_iter, replace=few)
                if not found:
                    self._told = self._told or warn_of_refusal(found)
                    break
                drawn.append(found)
            if not drawn:
                return []
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

    def _by_block(self, columns: Columns) -> list[BlockMeta]:
        blocks, rows = columns.pop("block"), columns.pop("row")
        order = np.argsort(blocks, kind="stable")
        numbers, starts = np.unique(blocks[order], return_index=True)
        pieces = np.split(order, starts[1:])
        metas: list[BlockMeta] = [
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
            self._store.remove(self._leaving.popleft()[1])


class Replay:
    """Gives samples of a buffer to the learner, in the proportion of a serial run.

    Args:
        buffer: The samples.
        cfg: The bound config.

    Attributes:
        ratio: Keeps updates and samples in proportion.
    """

    def __init__(self, buffer: BlockBuffer, cfg: RunConfig) -> None:
        self._buffer = buffer
        learn, collect, system = cfg.policy.learn, cfg.policy.collect, system_of(cfg)
        self._worth = Worth(learn, collect, cfg.pipeline.max_env_step)
        ahead = system.send_learn_info_freq + system.collector_num * self._worth.of_block
        self.ratio = Ratio(ahead, system.task_timeout)
        unit = "n_episode" if collect.get("n_sample") is None else "n_sample"
        self._share = Share({unit: int(collect[unit])})
        self._batch_size, self._first = int(learn.batch_size), 0
        self._stores_priority = bool(cfg.policy.priority)

    @property
    def is_random(self) -> bool:
        """Whether the random samples of the warm-up are not complete yet."""
        return self.ratio.samples < self._worth.warm_up

    @property
    def stored(self) -> int:
        """Samples in the buffer."""
        return self._buffer.count()

    @property
    def owes_updates(self) -> bool:
        """Whether the samples are worth updates that were not made yet."""
        return self.ratio.updates < self.ratio.earned

    def end(self) -> None:
        """Does nothing: what was collected is worth updates without the rest."""

    def begin(self, learner_step: int, first_step: int = 0) -> None:
        """Notes the updates from which a learner starts, and those of a checkpoint that it had."""
        self._first = first_step
        self.ratio.learned(learner_step - first_step)

    def claim(self, stopped: Callable[[], bool]) -> Share | None:
        """Waits until collecting may go on; returns what to collect, None if stopped."""
        return self._share if self.ratio.wait_to_collect(stopped) else None

    def making(self, share: Share) -> None:
        """Does nothing, as `give_back`."""

    def give_back(self, share: Share) -> None:
        """Does nothing: any block is as good as another one."""

    def put(self, share: Share, meta: BlockMeta) -> None:
        """Stores the metadata of a block."""
        self._buffer.push(meta)
        self.ratio.collected(int(meta["count"]), self._worth.of(meta))

    def wait_to_learn(self, stopped: Callable[[], bool]) -> bool:
        """Waits until updates may be made; returns False if stopped."""
        return self.ratio.wait_to_learn(stopped)

    def draw(self, size: int, train_iter: int) -> list[BlockMeta]:
        """Draws samples, see `BlockBuffer.sample`, at most for the updates that are owed."""
        owed = max(1, math.ceil(self.ratio.earned - self.ratio.updates))
        wanted = min(size, self._batch_size * owed)
        metas = self._buffer.sample(wanted, train_iter)
        drawn = sum(len(meta["row"]) for meta in metas)
        if drawn < wanted:
            self.ratio.skip(drawn // self._batch_size)
        return metas

    def learned(self, info: Mapping[str, Any]) -> None:
        """Notes the updates that were made, and the priorities of their samples."""
        if self._stores_priority:
            self._buffer.update(info["priority_info"])
        self.ratio.learned(int(info["learner_step"]) - self._first)


class Ratio:
    """Keeps updates and collected samples in proportion: whoever is ahead waits.

    Args:
        ahead: Updates by which collecting may be ahead of learning.
        stall_s: Seconds after which a wait is an error.

    Attributes:
        samples: Samples collected so far.
        earned: Updates that a serial run would have made of them.
        updates: Updates made so far.
    """

    def __init__(self, ahead: float, stall_s: float) -> None:
        self._ahead, self._stall_s = ahead, stall_s
        self.samples, self.earned, self.updates = 0, 0.0, 0
        self._changed = threading.Condition()

    def collected(self, count: int, earned: float) -> None:
        """Adds samples, and the updates that they are worth."""
        with self._changed:
            self.samples += count
            self.earned += earned
            self._changed.notify_all()

    def learned(self, updates: int) -> None:
        """Sets the number of updates; a learner that was lost continues from an earlier one."""
        with self._changed:
            self.updates = updates
            self._changed.notify_all()

    def skip(self, updates: int) -> None:
        """Leaves out what is owed beyond the next updates, as a serial run does."""
        with self._changed:
            self.earned = min(self.earned, float(self.updates + updates))
            self._changed.notify_all()

    def wait_to_learn(self, stopped: Callable[[], bool]) -> bool:
        """Waits until the next updates may be made; returns False if stopped."""
        return self._wait(
            lambda: self.updates < self.earned, stopped, "the learner waits for samples"
        )

    def wait_to_collect(self, stopped: Callable[[], bool]) -> bool:
        """Waits until collecting may go on; returns False if stopped."""
        return self._wait(
            lambda: self.earned - self.updates <= self._ahead,
            stopped,
            "a collector waits for the learner",
        )

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
        return f"{self.samples} samples, {self.updates} updates of {math.floor(self.earned)}"


class Worth:
    """The updates that a serial run makes of each block of samples.

    It makes `update_per_collect` updates after each block, or `update_per_step` per env step,
    from the one on that completes the first batch, or the random samples of the warm-up. A budget
    of env steps may end the warm-up before, but not the first batch.

    Args:
        learn: The section `policy.learn`.
        collect: The section `policy.collect`.
        max_env_step: Budget in env steps; None: there is none.
    """

    def __init__(self, learn: Any, collect: Any, max_env_step: int | None = None) -> None:
        self._per_step, self._per_block = learn.update_per_step, learn.update_per_collect
        self.warm_up = int(collect.get("random_collect_size") or 0)
        self._least = self.warm_up or int(learn.batch_size)
        self._first_batch = min(self._least, int(learn.batch_size))
        self._block = int(collect.get("n_sample") or 1)
        self._left = math.inf if max_env_step is None else max_env_step
        self._samples, self._learns = 0, False

    @property
    def of_block(self) -> float:
        """Updates of one block, if it has `n_sample` samples."""
        if self._per_step is None:
            return float(self._per_block)
        return float(self._block * self._per_step)

    def of(self, meta: BlockMeta) -> float:
        """Returns the updates of the next block."""
        self._samples += int(meta["count"])
        self._left -= int(meta["env_step"])
        if self._samples < (self._least if self._left > 0 else self._first_batch):
            return 0.0
        first, self._learns = not self._learns, True
        if self._per_step is None:
            return float(self._per_block)
        return 1.0 if first else float(int(meta["env_step"]) * self._per_step)
