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

__all__ = [
    "LoadCkptHook",
    "LogReduceHook",
    "LogShowHook",
    "SaveCkptHook",
    "add_learner_hook",
    "build_learner_hook_by_cfg",
    "merge_hooks",
    "register_learner_hook",
    "show_hooks",
]

__getattr__ = lazy(
    __name__,
    {
        "LoadCkptHook": ".checkpoint",
        "LogReduceHook": ".log_reduce",
        "LogShowHook": ".log_show",
        "SaveCkptHook": ".checkpoint",
        "add_learner_hook": ".hook_config",
        "build_learner_hook_by_cfg": ".hook_config",
        "merge_hooks": ".hook_config",
        "register_learner_hook": ".hook_config",
        "show_hooks": ".hook_config",
    },
)
