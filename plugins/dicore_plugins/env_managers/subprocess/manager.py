"""The env manager with worker processes that waits for all environments."""

from __future__ import annotations

from dicore_plugins.env_managers.base.manager import BaseEnvManager
from dicore_plugins.env_managers.subprocess.config import SyncSubprocessConfig
from dicore_plugins.env_managers.subprocess.pool import ProcessPool

__all__ = ["SyncSubprocessManager"]


class SyncSubprocessManager(BaseEnvManager):
    """Steps environments in worker processes and waits for all of them; see `ProcessPool`.

    The data is that of `BaseEnvManager`, bit for bit. A worker that is killed, exits or exceeds a
    time limit costs an episode of each of its environments, as an exception does of one.

    Args:
        env_fn: One factory per environment; pickled by cloudpickle.
        cfg: Options, as a section, a dict, or None for the defaults.
    """

    config_class = SyncSubprocessConfig
    pool_class = ProcessPool
    capabilities = BaseEnvManager.capabilities | {"workers"}
