"""Averages what several learners are about to show, so that one of them shows it for all."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import distributed

from dicore.errors import HookError
from dicore.interfaces.hook import LearnerHook
from dicore_plugins.hooks.hook_config import Interval

__all__ = ["LogReduceHook"]


class LogReduceHook(LearnerHook):
    """Replaces each monitored number by its mean over all learners, update by update.

    Every learner takes part: they make the same updates at the same time. It runs before
    `log_show`, whose interval it shares; a number that is not finite for one learner is not finite
    for all. A single learner is left as it is.

    Args:
        name: For people.
        priority: Lower runs first; `log_show` has 20.
        position: When it runs.
        freq: Updates between exchanges, as of `log_show`.

    Raises:
        HookError: the interval is not positive.
    """

    def __init__(
        self,
        name: str = "log_reduce",
        *,
        priority: int = 10,
        position: str = "after_iter",
        freq: int = 100,
    ) -> None:
        super().__init__(name, position=position, priority=priority)
        if freq < 1:
            raise HookError(f"log_reduce: every {freq} updates is no interval", hint="freq >= 1")
        self._interval = Interval(freq)

    @classmethod
    def from_value(cls, value: int, position: str) -> Self | None:
        """Makes the hook of the simple form; the value is the interval."""
        return cls(f"log_reduce_{position}", position=position, freq=int(value)) if value else None

    def resume(self, engine: Any) -> None:
        """Goes on from the learner's counter."""
        self._interval.pass_over(engine.last_iter)

    def __call__(self, engine: Any) -> None:
        """Exchanges what is due.

        Raises:
            HookError: there are several learners but no process group, or they do not agree on
                what they have to tell.
        """
        if engine.world_size < 2 or not self._interval.due(engine.last_iter):
            return
        if not (distributed.is_available() and distributed.is_initialized()):
            raise HookError(
                f"log_reduce: learner {engine.rank} of {engine.world_size} has no process group",
                hint="torch.distributed.init_process_group comes before training",
            )
        engine.log_buffer.load_state_dict(mean_over_ranks(engine.log_buffer.columns()))


def mean_over_ranks(columns: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[np.float64]]:
    """Averages columns of numbers over all processes of the default group, element by element.

    Args:
        columns: By name, float [n]; names and lengths are the same in every process.

    Returns:
        The means, float64 [n], by the same names.

    Raises:
        HookError: names or lengths differ; every process raises it.
    """
    names = sorted(columns)
    lengths = [len(columns[name]) for name in names]
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    _check_alike(names, lengths, device)
    if not sum(lengths):
        return dict(columns)
    flat = np.concatenate([np.asarray(columns[name], np.float64) for name in names])
    total = torch.from_numpy(flat).to(device)
    distributed.all_reduce(total)
    mean = (total / distributed.get_world_size()).cpu().numpy()
    return dict(zip(names, np.split(mean, np.cumsum(lengths)[:-1]), strict=True))


def _check_alike(names: list[str], lengths: list[int], device: str) -> None:
    """Raises HookError unless all processes have columns of the same names and lengths."""
    mark = zlib.crc32(repr((names, lengths)).encode())
    marks = torch.tensor([mark, -mark], device=device)
    distributed.all_reduce(marks, op=distributed.ReduceOp.MAX)
    largest, smallest = int(marks[0]), -int(marks[1])
    if largest != smallest:
        told = ", ".join(f"{name} [{n}]" for name, n in zip(names, lengths, strict=True)) or "none"
        raise HookError(
            "log_reduce: learners monitor other variables, or have made other numbers of updates",
            hint=f"learner {distributed.get_rank()} has {told}",
        )
