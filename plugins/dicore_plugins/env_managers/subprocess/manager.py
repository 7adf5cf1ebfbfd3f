"""The env manager with worker processes that waits for all environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.data import EnvBatch, TimestepBatch, Tree, tree_map
from dicore_plugins.env_managers.base.manager import BaseEnvManager
from dicore_plugins.env_managers.lifecycle import Seeds
from dicore_plugins.env_managers.observations import ObsBuffers
from dicore_plugins.env_managers.slots import SlotPool
from dicore_plugins.env_managers.subprocess.config import SyncSubprocessConfig
from dicore_plugins.env_managers.subprocess.pool import ProcessPool

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["SyncSubprocessManager", "WorkersManager"]


class WorkersManager(BaseEnvManager):
    """Base class of managers whose environments may be in processes; see `ProcessPool`.

    Args:
        env_fn: One factory per environment; for processes, pickled by cloudpickle.
        cfg: Options, as a section, a dict, or None for the defaults.
        output: Folder for files of what the environments print in processes; None: they print to
            the terminal.
    """

    _pool: SlotPool

    def __init__(
        self, env_fn: Sequence[Callable[[], Env]], cfg: Any = None, output: Path | None = None
    ) -> None:
        super().__init__(env_fn, cfg)
        self._pool.output = output

    def seed(self, seed: Seeds, dynamic_seed: bool | None = None, role: str = "collector") -> None:
        """Seeds the next episodes; see `IEnvManager.seed`."""
        super().seed(seed, dynamic_seed, role)
        self._pool.role = role

    @property
    def ready_obs(self) -> EnvBatch[Tree]:
        """Observations of the environments that wait for an action; see `BaseEnvManager`."""
        ready = super().ready_obs
        return ready.with_value(tree_map(np.copy, ready.value)) if self._cfg.copy_on_get else ready

    def _step(
        self, action: Mapping[int, Tree], buffers: ObsBuffers | None
    ) -> EnvBatch[TimestepBatch]:
        answer = super()._step(action, buffers)
        if self._cfg.copy_on_get:
            answer.value.obs = tree_map(np.copy, answer.value.obs)
        return answer


class SyncSubprocessManager(WorkersManager):
    """Steps environments in worker processes and waits for all of them; see `ProcessPool`.

    The data is that of `BaseEnvManager`, bit for bit. A worker that is killed, exits or exceeds a
    time limit costs an episode of each of its environments, as an exception does of one.
    """

    config_class = SyncSubprocessConfig
    pool_class = ProcessPool
    capabilities = BaseEnvManager.capabilities | {"workers"}
