"""Options of the env manager that steps environments in threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dicore.config.schema import frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.env_managers.base.config import BaseManagerConfig

if TYPE_CHECKING:
    from dicore.interfaces.env import Env
    from dicore.interfaces.env_manager import IEnvManager


@frozen(kw_only=True)
class ThreadManagerConfig(BaseManagerConfig):
    """Steps each environment in its own thread: for environments that wait for a server.

    Environments are not pickled, and are stepped at the same time: those that share state of the
    process (a library that no two threads may use) need processes. Only one thread at a time runs
    Python code; environments that compute in Python are faster in processes.
    """

    reset_timeout: float | None = option(
        120.0,
        "limit per reset; then the thread is left alone and the environment made again."
        " None: no limit",
        gt=0,
        unit="s",
    )
    step_timeout: float | None = option(
        60.0,
        "limit per step; then the thread is left alone and the environment made again."
        " None: no limit",
        gt=0,
        unit="s",
    )

    def build(
        self, ctx: BuildContext | None, *, env_fn: Sequence[Callable[[], Env]], **parts: object
    ) -> IEnvManager:
        """Returns the manager; `env_fn` holds one factory per environment."""
        from dicore_plugins.env_managers.threads.manager import ThreadEnvManager

        return ThreadEnvManager(env_fn, self)
