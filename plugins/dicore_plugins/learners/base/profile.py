"""Timing of a learner: update, backward pass, optimizer step and hooks.

There is no GPU synchronisation: with a GPU, the times are those of launching its kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from dicore.interfaces.hook import ILearnerHook
from dicore_plugins.optimizers.flat import FlatOptimizer

if TYPE_CHECKING:
    from dicore.interfaces.learner import ILearner
    from dicore.interfaces.policy import LearnMode
    from dicore_plugins.middleware.profiler import StepTimer

__all__ = ["TimedHook", "time_hooks", "time_updates"]


class TimedHook:
    """Wraps a hook; its call is timed, other attributes are the hook's.

    Args:
        hook: The hook.
        call: The timed call of the hook.
    """

    def __init__(self, hook: ILearnerHook, call: Callable[[ILearner], None]) -> None:
        self._hook = hook
        self._call = call

    def __call__(self, engine: ILearner) -> None:
        self._call(engine)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hook, name)


def time_hooks(
    timer: StepTimer, hooks: dict[str, list[ILearnerHook]]
) -> dict[str, list[ILearnerHook]]:
    """Returns the hooks by position, each wrapped and timed under its name."""
    return {
        position: [TimedHook(each, timer.around(f"hook {each.name}", each)) for each in listed]
        for position, listed in hooks.items()
    }


def time_updates(timer: StepTimer, mode: LearnMode) -> LearnMode:
    """Returns a learn mode whose forward, backward pass and optimizer step are timed."""
    timer.patch(torch.Tensor, "backward", "backward")
    timer.patch(FlatOptimizer, "step", "optimizer")
    _time_torch_optimizers(timer)
    if not hasattr(mode, "_replace"):  # not a named tuple: `train` times it as a whole
        return mode
    timer.name_rest("update", "forward and loss")
    return mode._replace(forward=timer.around("update", mode.forward))


def _time_torch_optimizers(timer: StepTimer) -> None:
    """Times the step of every `torch.optim` optimizer."""
    running: list[AbstractContextManager[None]] = []

    def begin(*_: object) -> None:
        running.append(timer.span("optimizer"))
        running[-1].__enter__()

    def finish(*_: object) -> None:
        running.pop().__exit__(None, None, None)

    for handle in (
        register_optimizer_step_pre_hook(begin),
        register_optimizer_step_post_hook(finish),
    ):
        timer.at_end(handle.remove)
