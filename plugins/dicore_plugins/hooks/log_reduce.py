"""Averages the monitored values of several learners, so that one of them logs for all."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import distributed

from dicore.errors import HookError
from dicore.interfaces.hook import LearnerHook
from dicore_plugins.hooks.hook_config import Interval
from dicore_plugins.hooks.standard import LogShowHook

if TYPE_CHECKING:
    from dicore_plugins.learners.base.learner import BaseLearner


__all__ = ["LogReduceHook"]


class LogReduceHook(LearnerHook):
    """Averages each monitored value over all learners, update by update (all-reduce).

    All learners take part and make the same updates. The hook runs before `log_show`, whenever that
    logs, whatever the interval of this hook is: local values are not shown. A value that is not
    finite in one learner is not finite in the mean. With a single learner, the hook has no effect.

    Args:
        name: Name in logs and messages.
        priority: Hooks with lower values run first; `log_show` has 20.
        position: When the hook runs: `before_run`, `before_iter`, `after_iter` or `after_run`.
        freq: Updates between exchanges; there is one more before each line of `log_show`.

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
            raise HookError(f"log_reduce: freq must be >= 1, got {freq}")
        self._interval = Interval(freq)

    @classmethod
    def from_value(cls, value: int, position: str) -> Self | None:
        """Creates the hook from the simple form; the value is the interval."""
        return cls(f"log_reduce_{position}", position=position, freq=int(value)) if value else None

    def resume(self, engine: BaseLearner) -> None:
        """Continues from the learner's counter."""
        self._interval.pass_over(engine.last_iter)

    def __call__(self, engine: BaseLearner) -> None:
        """Exchanges the monitored values when due.

        Raises:
            HookError: there are several learners but no process group, or their monitored values
                differ in names or numbers.
        """
        if engine.world_size < 2 or not self._is_due(engine):
            return
        if not (distributed.is_available() and distributed.is_initialized()):
            raise HookError(
                f"log_reduce: learner {engine.rank} of {engine.world_size} has no process group",
                hint="call torch.distributed.init_process_group before training",
            )
        engine.log_buffer.load_state_dict(mean_over_ranks(engine.log_buffer.columns()))

    def _is_due(self, engine: BaseLearner) -> bool:
        """Returns whether values are to be exchanged: by the interval, or since they are shown."""
        due = self._interval.due(engine.last_iter)
        hooks = engine._hooks.get(self.position, ())  # noqa: SLF001 - those that follow
        return due or any(
            hook.shows(engine.last_iter) for hook in hooks if isinstance(hook, LogShowHook)
        )


def mean_over_ranks(
    columns: Mapping[str, npt.NDArray[np.float64]],
) -> dict[str, npt.NDArray[np.float64]]:
    """Averages columns over all processes of the default group, element by element.

    Args:
        columns: float [n] by name; names and lengths must be equal in all processes.

    Returns:
        The means by name, float64 [n].

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
    digest = zlib.crc32(repr((names, lengths)).encode())
    digests = torch.tensor([digest, -digest], device=device)
    distributed.all_reduce(digests, op=distributed.ReduceOp.MAX)
    largest, smallest = int(digests[0]), -int(digests[1])
    if largest != smallest:
        here = ", ".join(f"{name} [{n}]" for name, n in zip(names, lengths, strict=True)) or "none"
        raise HookError(
            "log_reduce: learners monitor different variables or made different numbers of updates",
            hint=f"learner {distributed.get_rank()} has {here}",
        )
