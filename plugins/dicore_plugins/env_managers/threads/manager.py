"""The env manager that steps environments in threads of this process."""

from __future__ import annotations

from dicore_plugins.env_managers.base.manager import BaseEnvManager
from dicore_plugins.env_managers.threads.config import ThreadManagerConfig
from dicore_plugins.env_managers.threads.pool import ThreadPool

__all__ = ["ThreadEnvManager"]


class ThreadEnvManager(BaseEnvManager):
    """Steps N environments at the same time, in threads; see `BaseEnvManager`.

    Waiting overlaps: for a network, for a server, or in code that releases the interpreter's lock.
    """

    config_class = ThreadManagerConfig
    pool_class = ThreadPool
    capabilities = BaseEnvManager.capabilities | {"deadlines"}
