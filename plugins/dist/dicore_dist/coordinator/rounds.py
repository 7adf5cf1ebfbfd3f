"""Between collectors and learner of on-policy training: the samples of one version at a time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dicore.errors import DicoreError
from dicore_dist.links.exchange import Store

if TYPE_CHECKING:
    from dicore_dist.links.blocks import BlockMeta

__all__ = ["Flow", "Rounds", "Share"]

_LOG = logging.getLogger("dicore.comm")


@dataclass(frozen=True)
class Share:
    """What one call of a collector is to collect.

    Args:
        amount: `n_sample` or `n_episode`.
        policy_iter: Updates of the parameters to act by; None: the newest.
        number: Number of the round, and of the share in it.
    """

    amount: Mapping[str, int]
    policy_iter: int | None = None
    number: tuple[int, int] = (0, 0)


class Flow(Protocol):
    """What is between collectors and learner: it says who may go on, and has the samples."""

    @property
    def is_random(self) -> bool:
        """Whether collectors act at random."""

    @property
    def stored(self) -> int | None:
        """Samples in the buffer; None: there is none."""

    @property
    def owes_updates(self) -> bool:
        """Whether the samples are worth updates that were not made yet."""

    def end(self) -> None:
        """Says that nothing more is collected: the budget is spent."""

    def begin(self, learner_step: int, first_step: int = 0) -> None:
        """Notes the updates from which a learner starts, and those of a checkpoint that it had."""

    def claim(self, stopped: Callable[[], bool]) -> Share | None:
        """Waits until collecting may go on; returns what to collect, None if stopped."""

    def making(self, share: Share) -> None:
        """Notes that a collector makes a share."""

    def give_back(self, share: Share) -> None:
        """Takes back a share that was not delivered."""

    def put(self, share: Share, meta: BlockMeta) -> None:
        """Stores the metadata of a block."""

    def wait_to_learn(self, stopped: Callable[[], bool]) -> bool:
        """Waits until updates may be made; returns False if stopped."""

    def draw(self, size: int, train_iter: int) -> list[BlockMeta]:
        """Returns the metadata of samples for updates."""

    def learned(self, info: Mapping[str, Any]) -> None:
        """Notes the updates that were made."""


class Rounds:
    """Gives shares of one collect to collectors, and all their samples at once to the learner.

    A share that a collector did not deliver is given again; samples of other parameters than those
    of the round are refused.

    Args:
        unit: `n_sample` or `n_episode`.
        count: How much all collect together by one version of the parameters.
        parts: Number of shares.
        store: Where the samples are; those that were used are removed.
        stall_s: Seconds after which a wait is an error.
    """

    def __init__(self, unit: str, count: int, parts: int, store: Store, stall_s: float) -> None:
        sizes = [count // parts + (part < count % parts) for part in range(parts)]
        self._amounts = [{unit: size} for size in sizes if size]
        self._store, self._stall_s = store, stall_s
        self._round, self._version, self._ends = 0, -1, False
        self._made: set[tuple[int, int]] = set()
        self._free: list[int] = []
        self._found: dict[int, BlockMeta] = {}
        self._changed = threading.Condition()

    is_random: bool = False
    """On-policy learning has no random samples."""

    stored: int | None = None
    """There is no buffer."""

    @property
    def owes_updates(self) -> bool:
        """Whether samples that will be learned from were not learned from yet."""
        return bool(self._found) and (self._ends or self._is_complete())

    def _is_complete(self) -> bool:
        """Whether no share of the round is missing; of the last one, none that is being made."""
        if self._ends:
            return bool(self._found) and not self._made
        return bool(self._amounts) and len(self._found) == len(self._amounts)

    def end(self) -> None:
        """Says that no further share will be given: the budget is spent."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()

    def begin(self, learner_step: int, first_step: int = 0) -> None:
        """Opens a round for the parameters after `learner_step` updates."""
        with self._changed:
            for meta in self._found.values():
                self._remove(meta)
            self._round, self._version = self._round + 1, learner_step
            self._found, self._free = {}, list(range(len(self._amounts)))
            self._made.clear()
            self._changed.notify_all()

    def claim(self, stopped: Callable[[], bool]) -> Share | None:
        """Waits for the next share; None if stopped."""
        if not self._wait(lambda: bool(self._free), stopped, "a collector waits for the learner"):
            return None
        with self._changed:
            if not self._free:  # another collector was faster
                return self.claim(stopped)
            part = self._free.pop(0)
            return Share(self._amounts[part], self._version, (self._round, part))

    def making(self, share: Share) -> None:
        """Notes that a collector makes a share."""
        with self._changed:
            self._made.add(share.number)

    def give_back(self, share: Share) -> None:
        """Takes back a share that was not delivered."""
        with self._changed:
            self._made.discard(share.number)
            if share.number[0] == self._round:
                self._free.append(share.number[1])
                self._changed.notify_all()

    def put(self, share: Share, meta: BlockMeta) -> None:
        """Stores the metadata of a share."""
        with self._changed:
            self._made.discard(share.number)
            if share.number[0] != self._round:
                self._remove(meta)
            elif meta["policy_iter"] != self._version:
                _LOG.warning("samples of other parameters are refused: %s", meta["file_path"])
                self._remove(meta)
                self._free.append(share.number[1])
            else:
                self._found[share.number[1]] = meta
            self._changed.notify_all()

    def wait_to_learn(self, stopped: Callable[[], bool]) -> bool:
        """Waits for all shares of the round; returns False if stopped."""
        return self._wait(self._is_complete, stopped, "the learner waits for samples")

    def draw(self, size: int, train_iter: int) -> list[BlockMeta]:
        """Returns the metadata of all samples of the round."""
        with self._changed:
            return [{"file_path": self._found[part]["file_path"]} for part in sorted(self._found)]

    def learned(self, info: Mapping[str, Any]) -> None:
        """Opens the next round."""
        self.begin(int(info["learner_step"]))

    def _remove(self, meta: BlockMeta) -> None:
        self._store.remove(str(meta["file_path"]))

    def _wait(self, holds: Callable[[], bool], stopped: Callable[[], bool], what: str) -> bool:
        end = time.monotonic() + self._stall_s
        with self._changed:
            while not stopped():
                if holds():
                    return True
                self._changed.wait(0.2)
                if time.monotonic() > end:
                    text = f"{len(self._found)} of {len(self._amounts)} shares"
                    raise DicoreError(f"{what} for {self._stall_s:.0f} s: {text}")
        return False
