"""Learner hooks: they run before and after a learner's run and its iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.hooks.checkpoint import LoadCkptHook, SaveCkptHook
    from dicore_plugins.hooks.hook_config import (
        add_learner_hook,
        build_learner_hook_by_cfg,
        merge_hooks,
        register_learner_hook,
        show_hooks,
    )
    from dicore_plugins.hooks.log_reduce import LogReduceHook
    from dicore_plugins.hooks.log_show import LogShowHook
    from dicore_plugins.hooks.windows import MonitorHook, monitor

__all__ = [
    "LoadCkptHook",
    "LogReduceHook",
    "LogShowHook",
    "MonitorHook",
    "SaveCkptHook",
    "add_learner_hook",
    "build_learner_hook_by_cfg",
    "merge_hooks",
    "monitor",
    "register_learner_hook",
    "show_hooks",
]

__getattr__ = lazy(
    __name__,
    {
        ".checkpoint": (
            "LoadCkptHook",
            "SaveCkptHook",
        ),
        ".log_reduce": ("LogReduceHook",),
        ".log_show": ("LogShowHook",),
        ".windows": ("MonitorHook", "monitor"),
        ".hook_config": (
            "add_learner_hook",
            "build_learner_hook_by_cfg",
            "merge_hooks",
            "register_learner_hook",
            "show_hooks",
        ),
    },
)
