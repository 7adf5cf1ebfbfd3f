"""The env manager whose environments are threads or processes."""

from __future__ import annotations

from dicore_plugins.env_managers.asynchronous.config import EnvSupervisorConfig
from dicore_plugins.env_managers.asynchronous.manager import AsyncEnvManager
from dicore_plugins.env_managers.asynchronous.pools import AsyncThreadPool

__all__ = ["EnvSupervisor"]


class EnvSupervisor(AsyncEnvManager):
    """Steps environments at their own pace, in threads."""

    config_class = EnvSupervisorConfig
    pool_class = AsyncThreadPool
