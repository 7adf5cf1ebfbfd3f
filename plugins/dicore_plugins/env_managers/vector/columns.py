"""The columns that a vector env takes and returns, checked as those of single environments.

Shapes: N environments, `...` one observation.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector.utils import iterate
from numpy import float32, ndarray

from dicore.data import TimestepBatch, Tree, tree_row
from dicore.errors import DicoreError, EnvResetError, EnvStepError
from dicore_plugins.env_managers.episodes import Episodes
from dicore_plugins.env_managers.faults import (
    Fault,
    data_error,
    described,
    reset_error,
    retry_wait,
    reward_fault,
    step_error,
)
from dicore_plugins.env_managers.observations import Leaf, Nested
from dicore_plugins.env_managers.vector.pool import FailedEnvError

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

__all__ = ["Columns", "put", "retried", "rows_of"]

_LOG = logging.getLogger("dicore.env")
_FLOAT32, _BOOL = np.dtype(np.float32), np.dtype(np.bool_)


class Columns:
    """Checks what a vector env returns; errors name the environment, if it can be known.

    Args:
        storage: Storage of the observations.
        episodes: The running episodes, for messages.
        reward_shape: Of one reward.
        name: Of the vector env, for messages.
        space: Space of its observations [N, ...]; None: each of its leaves is an array.
    """

    def __init__(
        self,
        storage: Leaf | Nested,
        episodes: Episodes,
        reward_shape: tuple[int, ...],
        name: str,
        space: Space | None = None,
    ) -> None:
        self._storage, self._episodes, self._name = storage, episodes, name
        self._space = space
        self._env_num = len(episodes.state)
        self._reward_shape = reward_shape
        self._rewards_shape = (self._env_num, *reward_shape)
        self._finite = Leaf("", reward_shape, np.float32).finite

    def obs(self, obs: Tree, where: str = "") -> Tree:
        """Returns a copy of observations [N, ...]; `where` is the place of an error."""
        block = self._storage.stacked(obs, self._env_num)
        if block is not None:
            cast = block.__class__ is ndarray and block is not obs
            return block if cast else self._storage.copy(block)
        rows = self._rows(obs)
        for env_id, row in enumerate(rows):
            fault = self._storage.fault(row)
            if fault is not None:
                raise self.error(env_id, fault, where)
        return self._storage.stack(rows)

    def _rows(self, obs: Tree) -> list[Tree]:
        """Returns the observations of the single environments."""
        try:
            if self._space is None:
                return [tree_row(obs, env_id) for env_id in range(self._env_num)]
            rows = list(iterate(self._space, obs))
        except (TypeError, ValueError, LookupError):
            return [obs]
        return rows if len(rows) == self._env_num else [obs]

    def reward(self, reward: Tree) -> Tree:
        """Returns a copy of rewards, float32 [N, ...]."""
        shape = self._rewards_shape
        right = reward.__class__ is ndarray and reward.dtype is _FLOAT32 and reward.shape == shape
        if right and self._finite(reward):
            return reward.copy()
        value, fault = reward_fault(reward, shape)
        if fault is None:
            return value.astype(float32)
        if np.shape(reward)[:1] == shape[:1]:
            for env_id in range(self._env_num):
                row = reward_fault(reward[env_id], self._reward_shape)[1]
                if row is not None:
                    raise self.error(env_id, row)
        raise EnvStepError(
            f"{self._name} returned rewards of shape {list(np.shape(reward))}; expected"
            f" {list(shape)}",
            hint="set single_reward_space of the vector env to the space of one reward",
        )

    def flags(self, flags: object) -> npt.NDArray[np.bool_]:
        """Returns `terminated` or `truncated` as bool [N].

        Raises:
            EnvStepError: it is something else.
        """
        if flags.__class__ is ndarray and flags.dtype is _BOOL and flags.ndim == 1:
            return flags
        found = np.asarray(flags)
        if found.shape != (self._env_num,) or not np.isin(found, (0, 1)).all():
            raise EnvStepError(
                f"{self._name} returned {flags!r} for terminated or truncated; expected"
                f" bool[{self._env_num}]"
            )
        return found.astype(np.bool_)

    def info(self, info: object) -> Mapping[str, Any]:
        """Returns the info; None counts as empty.

        Raises:
            EnvStepError: it is no dict.
        """
        if info is None or isinstance(info, Mapping):
            return info or {}
        raise EnvStepError(
            f"{self._name} returned a {type(info).__name__} for info, not a dict of columns",
            hint="return infos as gymnasium.vector.VectorEnv does",
        )

    def abnormal(self, obs: Tree, count: int, error: DicoreError) -> TimestepBatch:
        """Returns truncated timesteps that are marked abnormal, with their last observations."""
        yes = np.ones(count, np.bool_)
        infos = [{"abnormal": True, "error": error.message} for _ in range(count)]
        reward = np.zeros((count, *self._reward_shape), float32)
        return TimestepBatch(obs, reward, ~yes, yes.copy(), infos, yes)

    def error(self, env_id: int, fault: Fault, where: str = "") -> DicoreError:
        """Returns the error for invalid data of one environment."""
        episodes = self._episodes
        return data_error(env_id, where or episodes.where(env_id), episodes.seed[env_id], fault)

    def step_error(self, error: BaseException, actions: Tree) -> DicoreError:
        """Returns the error for a step of the vector env that raised."""
        if not isinstance(error, FailedEnvError):
            return EnvStepError(
                f"the step of {self._name} failed: {described(error)}",
                hint="--debug shows the traceback; call reset() to start new episodes",
            )
        env_id, cause = error.env_id, error.cause
        if isinstance(cause, Fault):
            return self.error(env_id, cause)
        where, seed = self._episodes.where(env_id), self._episodes.seed[env_id]
        return step_error(env_id, where, seed, tree_row(actions, env_id), cause)


def retried(
    begin: Callable[[], object], rows: Sequence[int], seeds: Sequence[int], cfg: Any
) -> object:
    """Resets a vector env, again after an error; returns its observations.

    Raises:
        DicoreError: every attempt failed, or one returned invalid data.
    """
    for attempt in range(1, cfg.max_retry + 1):
        try:
            return begin()
        except (Exception, SystemExit) as error:
            failed = _reset_error(error, rows, seeds, attempt)
            if attempt >= cfg.max_retry or not isinstance(failed, EnvResetError):
                raise failed from error
            _LOG.warning("%s; try %d", failed.message, attempt + 1)
            time.sleep(retry_wait(cfg.retry_waiting_time, attempt))
    return None


def _reset_error(
    error: BaseException, rows: Sequence[int], seeds: Sequence[int], tries: int
) -> DicoreError:
    """Returns the error for a reset of the vector env that raised."""
    if isinstance(error, DicoreError):
        return error
    if not isinstance(error, FailedEnvError):
        return EnvResetError(
            f"the reset of the vector env failed (seed {seeds[0]}, try {tries}):"
            f" {described(error)}",
            hint="--debug shows the traceback",
            context={"seed": seeds[0]},
        )
    env_id, cause = error.env_id, error.cause
    seed = seeds[list(rows).index(env_id)]
    if isinstance(cause, Fault):
        return data_error(env_id, f"the reset with seed {seed}", seed, cause)
    return reset_error(env_id, seed, tries, cause)


def rows_of(columns: Tree, rows: npt.NDArray[np.int64]) -> Tree:
    """Returns rows of columns [N, ...]; for arrays faster than `tree_row`."""
    return columns.take(rows, 0) if columns.__class__ is ndarray else tree_row(columns, rows)


def put(target: Tree, rows: npt.NDArray[np.int64], values: Tree) -> Tree:
    """Writes values [K, ...] into rows of actions [N, ...]."""
    if target.__class__ is ndarray:
        target[rows] = values
        return target
    if isinstance(target, Mapping):
        return {key: put(each, rows, values[key]) for key, each in target.items()}
    if isinstance(target, tuple):
        return tuple(put(*each) for each in zip(target, [rows] * len(target), values, strict=True))
    for row, value in zip(rows.tolist(), values, strict=True):
        target[row] = value
    return target
