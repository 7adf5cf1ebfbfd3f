"""Async mode of a task: middleware that runs at the same time, over versions of the context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.executors.interface import IExecutor
    from dicore_plugins.executors.log import lag_logger
    from dicore_plugins.executors.threads import ThreadExecutor

__all__ = ["IExecutor", "ThreadExecutor", "lag_logger"]

_HOMES = {
    ".interface": ("IExecutor",),
    ".log": ("lag_logger",),
    ".threads": ("ThreadExecutor",),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
