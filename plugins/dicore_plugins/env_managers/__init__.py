"""Env managers: they step many environments as one.

`get_vec_env_setting` turns an env's config into the factories of a hand-written main.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.env_managers.actions import (
        ActionLog,
        action_check_of,
        actions_of,
        batch_of,
        draw_actions,
    )
    from dicore_plugins.env_managers.asynchronous.config import (
        AsyncSubprocessConfig,
        EnvSupervisorConfig,
    )
    from dicore_plugins.env_managers.asynchronous.manager import AsyncEnvManager
    from dicore_plugins.env_managers.asynchronous.pools import AsyncSteps
    from dicore_plugins.env_managers.base.config import BaseManagerConfig
    from dicore_plugins.env_managers.base.manager import BaseEnvManager
    from dicore_plugins.env_managers.env_pool import EnvPool
    from dicore_plugins.env_managers.episodes import reset_ended
    from dicore_plugins.env_managers.faults import RemoteError
    from dicore_plugins.env_managers.goals import GoalFunctions
    from dicore_plugins.env_managers.subprocess.config import SyncSubprocessConfig
    from dicore_plugins.env_managers.subprocess.manager import SyncSubprocessManager
    from dicore_plugins.env_managers.subprocess.pool import ProcessPool
    from dicore_plugins.env_managers.threads.config import ThreadManagerConfig
    from dicore_plugins.env_managers.threads.manager import ThreadEnvManager
    from dicore_plugins.env_managers.threads.pool import ThreadPool
    from dicore_plugins.env_managers.transports.interface import EnvLayout, IEnvTransport
    from dicore_plugins.env_managers.transports.shared_memory import SharedMemory
    from dicore_plugins.env_managers.vector.config import EnvPoolConfig, VectorManagerConfig
    from dicore_plugins.env_managers.vector.envpool import EnvPoolManager, EnvPoolPool
    from dicore_plugins.env_managers.vector.manager import VectorEnvManager
    from dicore_plugins.env_managers.vector.pool import VectorPool

__all__ = [
    "ActionLog",
    "AsyncEnvManager",
    "AsyncSteps",
    "AsyncSubprocessConfig",
    "BaseEnvManager",
    "BaseManagerConfig",
    "EnvLayout",
    "EnvPool",
    "EnvPoolConfig",
    "EnvPoolManager",
    "EnvPoolPool",
    "EnvSupervisorConfig",
    "GoalFunctions",
    "IEnvTransport",
    "ProcessPool",
    "RemoteError",
    "SharedMemory",
    "SyncSubprocessConfig",
    "SyncSubprocessManager",
    "ThreadEnvManager",
    "ThreadManagerConfig",
    "ThreadPool",
    "VectorEnvManager",
    "VectorManagerConfig",
    "VectorPool",
    "action_check_of",
    "actions_of",
    "batch_of",
    "build_env",
    "draw_actions",
    "get_vec_env_setting",
    "reset_ended",
]

_HOMES = {
    ".actions": ("ActionLog", "action_check_of", "actions_of", "batch_of", "draw_actions"),
    ".asynchronous.config": ("AsyncSubprocessConfig", "EnvSupervisorConfig"),
    ".asynchronous.manager": ("AsyncEnvManager",),
    ".asynchronous.pools": ("AsyncSteps",),
    ".base.config": ("BaseManagerConfig",),
    ".base.manager": ("BaseEnvManager",),
    ".env_pool": ("EnvPool",),
    ".episodes": ("reset_ended",),
    ".faults": ("RemoteError",),
    ".goals": ("GoalFunctions",),
    ".threads.config": ("ThreadManagerConfig",),
    ".threads.manager": ("ThreadEnvManager",),
    ".threads.pool": ("ThreadPool",),
    ".transports.interface": ("EnvLayout", "IEnvTransport"),
    ".transports.shared_memory": ("SharedMemory",),
    ".vector.config": ("EnvPoolConfig", "VectorManagerConfig"),
    ".vector.envpool": ("EnvPoolManager", "EnvPoolPool"),
    ".vector.manager": ("VectorEnvManager",),
    ".vector.pool": ("VectorPool",),
    ".subprocess.config": ("SyncSubprocessConfig",),
    ".subprocess.manager": ("SyncSubprocessManager",),
    ".subprocess.pool": ("ProcessPool",),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)


def get_vec_env_setting(cfg: Any) -> tuple[Callable[[Any], Any], list[Any], list[Any]]:
    """Returns what a hand-written main needs to make its managers.

    Args:
        cfg: The env's section (`cfg.env`).

    Returns:
        A function from one environment's config to the environment, the configs of the collector
        environments, and those of the evaluator environments.
    """
    from dicore.run.env_factory import env_sections

    return build_env, env_sections(cfg, "collector"), env_sections(cfg, "evaluator")


def build_env(cfg: Any) -> Any:
    """Makes one environment with its wrappers, the innermost first."""
    from dicore.run.env_factory import BuildContext, EnvFactory

    return EnvFactory(cfg, BuildContext())()
