"""Collecting from environments that are not stepped together: at their own pace, or only some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dicore.data import EnvBatch, TimestepBatch, Tree, tree_map, tree_row
from dicore.data.tree import is_tensor
from dicore.interfaces.env_manager import IEnvManager
from dicore.interfaces.policy import CollectMode
from dicore_plugins.collectors.base import chosen_actions
from dicore_plugins.collectors.block import Block, obs_changed


class PerEnvSteps:
    """Steps environments that are ready and writes a row for each that answers.

    Observation and output of an environment are kept until it answers.

    Args:
        env: The env manager.
        num_envs: N.

    Attributes:
        pending: bool [N]; environments that have not answered an action whose row is wanted.
    """

    def __init__(self, env: IEnvManager, num_envs: int) -> None:
        self.pending: npt.NDArray[np.bool_] = np.zeros(num_envs, np.bool_)
        self._env = env
        self._num_envs = num_envs
        self._kept: Tree = None

    def forget(self) -> None:
        """Answers to the actions so far give no rows."""
        self.pending[:] = False
        self._kept = None

    def step(
        self,
        block: Block,
        policy: CollectMode,
        step: Callable[[Any], Any],
        kwargs: Mapping[str, object],
        wanted: npt.NDArray[np.bool_] | None = None,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Any]:
        """Acts in the environments that are ready, and adds a row to those that answer.

        Args:
            block: Receives the rows.
            policy: The collect mode.
            step: The manager's step.
            kwargs: Keyword arguments of the policy's forward.
            wanted: bool [N]; the environments to act in. None: all.

        Returns:
            The row number (-1: none, see `forget`) and the env id of each answer, int64 [K], and
            the timesteps.
        """
        obs = self._env.ready_obs
        if wanted is not None and not wanted[obs.env_id].all():
            rows = np.flatnonzero(wanted[obs.env_id])
            obs = EnvBatch(obs.env_id[rows], tree_row(obs.value, rows))
        output: Mapping[int, Tree] = {}
        if len(obs):
            output = chosen = chosen_actions(obs, policy.forward(obs, **kwargs))
            self._keep(obs.env_id, {"obs": obs.value, "output": dict(chosen.value)})
        answer = step(output)
        ids, timestep = answer.env_id, answer.value
        t = np.full(len(ids), -1)
        known = np.flatnonzero(self.pending[ids])
        if len(known):
            envs = ids[known]
            seen = timestep if len(known) == len(ids) else _some(timestep, known)
            acted = tree_row(self._kept, envs)
            columns = policy.process_transition(acted["obs"], acted["output"], seen)
            block.changed |= obs_changed(columns, acted["obs"])
            t[known] = block.rows[envs]
            block.write_some(envs, columns, seen.terminated | seen.truncated)
            self.pending[envs] = False
        return t, ids, timestep

    def _keep(self, env_id: npt.NDArray[np.int64], values: Tree) -> None:
        def room(leaf: Tree) -> Tree:
            shape = (self._num_envs, *np.shape(leaf)[1:])
            return leaf.new_empty(shape) if is_tensor(leaf) else np.empty_like(leaf, shape=shape)

        def put(target: Tree, leaf: Tree) -> Tree:
            target[env_id] = leaf
            return target

        if self._kept is None:
            self._kept = tree_map(room, values)
        tree_map(put, self._kept, values)
        self.pending[env_id] = True

    def latest_obs(self, block: Block, envs: npt.NDArray[np.int64]) -> Tree:
        """Returns the observations [K, ...] after the last rows of K environments.

        One that has not answered yet acts on this observation; one whose next episode has not begun
        has its last observation, or after an abnormal step any, which no sample has.
        """
        ready = self._env.ready_obs
        place = np.full(self._num_envs, -1)
        place[ready.env_id] = np.arange(len(ready.env_id))
        rows = place[envs]
        if (rows >= 0).all():
            return tree_row(ready.value, rows)
        pieces = [
            tree_row(ready.value, [row]) if row >= 0 else self._absent_obs(block, env)
            for env, row in zip(envs.tolist(), rows.tolist(), strict=True)
        ]
        return tree_map(lambda *leaves: np.concatenate(leaves), *pieces)

    def _absent_obs(self, block: Block, env: int) -> Tree:
        """Returns the observation [1, ...] of an environment that is not ready."""
        if self.pending[env] or not block.valid[int(block.rows[env]) - 1, env]:
            return tree_row(self._kept["obs"], [env])
        return block.final_obs(env)


def _some(timestep: TimestepBatch, rows: npt.NDArray[np.int64]) -> TimestepBatch:
    """Returns the timesteps in `rows`."""
    return TimestepBatch(
        tree_row(timestep.obs, rows),
        timestep.reward[rows],
        timestep.terminated[rows],
        timestep.truncated[rows],
        [timestep.info[row] for row in rows.tolist()],
        None if timestep.abnormal is None else timestep.abnormal[rows],
    )
