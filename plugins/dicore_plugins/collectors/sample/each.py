"""Collecting from environments that are not stepped together: at their own pace, or only some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dicore.data import EnvBatch, Tree, tree_map, tree_row
from dicore_plugins.collectors.base import no_columns
from dicore_plugins.collectors.block import Block


class PerEnvSteps:
    """Steps environments that are ready and writes a row for each that answers.

    Observation and output of an environment are kept until it answers.

    Args:
        env: The env manager.
        block: Receives the rows.

    Attributes:
        policy: The collect mode.
    """

    def __init__(self, env: Any, block: Block) -> None:
        self.policy: Any = None
        self._env = env
        self._block = block
        self._kept: Tree = None

    def step(
        self,
        step: Callable[[Any], Any],
        kwargs: Mapping[str, Any],
        wanted: npt.NDArray[np.bool_] | None = None,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Any]:
        """Acts in the environments that are ready, and adds a row to those that answer.

        Args:
            step: The manager's step.
            kwargs: Keyword arguments of the policy's forward.
            wanted: bool [N]; the environments to act in. None: all.

        Returns:
            The row number and the env id of each answer, int64 [K], and the timesteps.
        """
        obs = self._env.ready_obs
        if wanted is not None and not wanted[obs.env_id].all():
            rows = np.flatnonzero(wanted[obs.env_id])
            obs = EnvBatch(obs.env_id[rows], tree_row(obs.value, rows))
        output: Mapping[int, Any] = {}
        if len(obs):
            output = chosen = EnvBatch.of(self.policy.forward(obs, **kwargs))
            if not isinstance(chosen.value, Mapping):
                raise no_columns(chosen.value)
            self._keep(obs.env_id, {"obs": obs.value, "output": dict(chosen.value)})
        answer = step(output)
        ids, timestep, block = answer.env_id, answer.value, self._block
        acted = tree_row(self._kept, ids)
        columns = self.policy.process_transition(acted["obs"], acted["output"], timestep)
        t = block.rows[ids]
        block.write_some(ids, columns, timestep.terminated | timestep.truncated)
        return t, ids, timestep

    def _keep(self, env_id: npt.NDArray[np.int64], values: Tree) -> None:
        num_envs = self._block.num_envs

        def room(leaf: Any) -> Any:
            array = np.asarray(leaf)
            return np.empty((num_envs, *array.shape[1:]), array.dtype)

        def put(target: Any, leaf: Any) -> Any:
            target[env_id] = leaf
            return target

        if self._kept is None:
            self._kept = tree_map(room, values)
        tree_map(put, self._kept, values)

    def latest_obs(self, env: int) -> Tree:
        """Returns the observation [1, ...] after the last row of an environment.

        One that has not answered yet acts on this observation.
        """
        ready = self._env.ready_obs
        row = np.flatnonzero(ready.env_id == env)
        return tree_row(ready.value, row) if len(row) else tree_row(self._kept["obs"], [env])
