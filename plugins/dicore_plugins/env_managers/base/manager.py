"""The in-process env manager: steps environments in a loop and stacks the results.

Shapes: N environments, K of them named, `...` one observation.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import array, float32, ndarray

from dicore.data import EnvBatch, TimestepBatch, tree_row
from dicore.errors import DicoreError, EnvError, EnvSpaceError, UsageError
from dicore.interfaces.env_manager import EnvState
from dicore_plugins.env_managers.actions import actions_of, batch_of, draw_actions
from dicore_plugins.env_managers.base.config import BaseManagerConfig
from dicore_plugins.env_managers.episodes import RUN
from dicore_plugins.env_managers.faults import all_of, data_error, reward_fault, step_error
from dicore_plugins.env_managers.lifecycle import ManagedEnvs
from dicore_plugins.env_managers.observations import ObsBuffers

__all__ = ["BaseEnvManager", "EnvInfo"]

_LOG = logging.getLogger("dicore.env")
_INT64 = np.dtype(np.int64)
_REWARD_SCALE = 1e-19
"""Sums of float32 rewards, each multiplied by this, cannot overflow."""

Results = tuple[list[Any], list[Any], list[Any], dict[int, tuple[bool, bool]], dict[int, Exception]]
"""Of K environments: observations, rewards and infos by row; (terminated, truncated) of the rows
whose episode ended; the exceptions of the rows whose step raised."""
Rewards = npt.NDArray[np.float32]


class EnvInfo(NamedTuple):
    """What the older `info()` of an environment returns."""

    agent_num: int
    obs_space: Any
    act_space: Any
    rew_space: Any


class BaseEnvManager(ManagedEnvs):
    """Steps N environments in the calling process; the contract is `IEnvManager`.

    If an environment's step raises or returns invalid data, its episode is discarded: up to
    `restart_budget` times, the manager returns a truncated step marked `abnormal` and begins a new
    episode; after that the step raises. The other environments have made their step in any case.

    Args:
        env_fn: One factory per environment; called at `launch` (one earlier, if spaces are asked).
        cfg: Options, as a section, a dict, or None for the defaults.

    Raises:
        UsageError: there is no factory.
    """

    config_class = BaseManagerConfig
    method_name_list: tuple[str, ...] = (
        "render", "random_action", "reward_shaping", "enable_save_replay", "enable_save_figure",
        "get_state", "set_state",
    )  # fmt: skip
    """Methods that `env_call` may call: those that do not change the manager's episode state."""

    def __init__(
        self,
        env_fn: Sequence[Callable[[], Any]],
        cfg: BaseManagerConfig | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(env_fn, cfg)
        self._ids: npt.NDArray[np.int64] = np.arange(self.env_num)
        self._position = {env_id: env_id for env_id in self._id_list}
        self._none_ended = np.zeros(self.env_num, np.bool_)
        self._none_ended.setflags(write=False)
        self._scale = np.full(self.env_num, _REWARD_SCALE, np.float32)

    # ---- stepping

    @property
    def ready_obs(self) -> EnvBatch[Any]:
        """Observations [K, ...] of the environments that wait for an action, by env id.

        Raises:
            ClosedError: the manager is not launched.
        """
        if self._closed:
            self._check_open("ready_obs")
        if self._episodes.all_run:
            return EnvBatch(self._ids, self._ready, self._position)
        rows = [i for i in self._id_list if self._episodes.state[i] is EnvState.RUN]
        return EnvBatch(self._ids[rows], tree_row(self._ready, rows))

    def random_action(self) -> EnvBatch[Any]:
        """Draws a legal action for each environment that waits for one."""
        from dicore.run.random import stream

        ready = self.ready_obs
        rng = stream("env_manager/random_action")
        return ready.with_value({"action": draw_actions(self.action_space, len(ready), rng)})

    def step(self, action: Mapping[int, Any]) -> EnvBatch[Any]:
        """Steps the environments named; the returned arrays are never written again.

        See `IEnvManager.step`. Observations of episodes that end are the final ones; the first
        ones of the next episode are in `ready_obs`.
        """
        return self._step(action, None)

    def step_into(self, action: Mapping[int, Any], out: Any = None) -> EnvBatch[Any]:
        """Steps like `step`, into recycled buffers.

        Observations returned here and by `ready_obs` are valid until the next but one such call.

        Args:
            action: As for `step`.
            out: Arrays [K, ...] of the caller into which the observations are written instead.
        """
        buffers = self._obs_buffers
        if buffers is None:
            answer = self._step(action, None)
        else:
            answer = self._step(action, buffers)
            buffers.hand_out(answer.value.obs, self._ready)
        if out is not None:
            answer.value.obs = self._storage.copy(answer.value.obs, out)
        return answer

    def _step(self, action: Mapping[int, Any], buffers: ObsBuffers | None) -> EnvBatch[Any]:
        if self._closed:
            self._check_open("step")
        ids, id_list, actions = self._checked_actions(action)
        if buffers is not None:
            buffers.turn()
        whole = id_list is self._id_list
        steps = self._pool.steps
        results = self._advance(steps if whole else [steps[i] for i in id_list], actions)
        _, _, infos, ended, _ = results
        log, episodes = self._action_log, self._episodes
        if log is not None:
            log.steps.append((id_list, actions))
            log.count += 1
        episodes.clock += 1
        if episodes.clock >= episodes.deadline or not whole:
            episodes.tick(id_list, ended)
        block, reward, errors = self._checked_block(results, actions, id_list, buffers)
        if self._bounds_checks:
            self._bounds_checks -= 1
            self._bounds.check(self._storage, block)
        if whole:
            episodes.total += reward
        else:
            episodes.total[id_list] += reward
        abnormal = _abnormal(infos, id_list) if any(infos) else None
        if whole and not ended and not errors:
            self._ready, none = block, self._none_ended
            timestep = TimestepBatch(block, reward, none, none, infos, abnormal)
            return EnvBatch(ids, timestep, self._position)
        terminated, truncated = self._end_episodes(results, block, id_list, buffers, errors)
        if errors:
            raise all_of(errors)
        timestep = TimestepBatch(block, reward, terminated, truncated, infos, abnormal)
        return EnvBatch(ids, timestep, self._position if whole else None)

    def _checked_actions(self, action: Mapping[int, Any]) -> tuple[Any, list[int], Any]:
        """Returns the env ids, as an array and as a list, and the actions one by one."""
        batch = action if action.__class__ is EnvBatch else batch_of(action)
        ids, value, id_list = batch.env_id, batch.value, self._id_list
        if ids is not self._ids or not self._episodes.all_run:
            id_list = ids.tolist()
            self._episodes.check_running(id_list)
            if id_list == self._id_list:
                id_list = self._id_list  # by identity: all environments, in order
        actions = value["action"] if value.__class__ is dict and "action" in value else None
        if (
            actions.__class__ is not ndarray
            or actions.dtype is not _INT64
            or actions.ndim != 1
            or len(values := actions.tolist()) != len(id_list)
            or not self._legal.issuperset(values)
        ):
            actions = self._check(actions_of(value, nested=self._nested), id_list)
        return ids, id_list, actions

    def _advance(self, steps: Sequence[Callable[[Any], Any]], actions: Iterable[Any]) -> Results:
        """Steps environments one after the other; an exception of one does not stop the others."""
        obs: list[Any] = []
        rewards: list[Any] = []
        infos: list[Any] = []
        ended: dict[int, tuple[bool, bool]] = {}
        raised: dict[int, Exception] = {}
        pairs = zip(steps, actions)  # noqa: B905 - checked to be equally long
        while True:
            try:
                for step, each in pairs:
                    seen, reward, terminated, truncated, info = step(each)
                    if terminated or truncated:
                        ended[len(obs)] = (bool(terminated), bool(truncated))
                    obs.append(seen)
                    rewards.append(reward)
                    infos.append(info)
            except Exception as error:
                row = len(obs)
                raised[row] = error
                ended.pop(row, None)
                obs.append(None)
                rewards.append(0.0)
                infos.append({})
            else:
                return obs, rewards, infos, ended, raised

    def _checked_block(
        self, results: Results, actions: Any, id_list: list[int], buffers: ObsBuffers | None
    ) -> tuple[Any, Rewards, list[DicoreError]]:
        """Stacks and checks observations and rewards at once; row by row if any is invalid.

        Returns:
            Observations [K, ...], rewards [K], and the errors of the environments that failed.
        """
        obs, rewards, _, _, raised = results
        room, scale = None, self._scale
        if id_list is not self._id_list:
            scale = scale[: len(id_list)]
        elif buffers is not None:
            room = buffers.room()
        block = self._storage.stack(obs, room)
        try:
            reward = array(rewards, float32)
            if (
                block is not None
                and not raised
                and reward.shape == scale.shape
                and isfinite(reward.dot(scale))
            ):
                return block, reward, []
        except (TypeError, ValueError, RuntimeError, RuntimeWarning):
            pass
        return self._checked_rows(results, list(actions), id_list)

    def _checked_rows(
        self, results: Results, actions: list[Any], id_list: list[int]
    ) -> tuple[Any, Rewards, list[DicoreError]]:
        """Stacks observations and rewards row by row; see `_checked_block`.

        A failed row has the last observation before the failure and reward 0.
        """
        obs, rewards, infos, ended, raised = results
        storage = self._storage
        block = storage.empty(len(id_list))
        reward = np.zeros(len(id_list), float32)
        errors: list[DicoreError] = []
        for row, env_id in enumerate(id_list):
            error = self._error_of(env_id, actions[row], raised.get(row), obs[row], rewards[row])
            if error is None:
                storage.write(block, row, obs[row])
                reward[row], _ = reward_fault(rewards[row])
                continue
            storage.put(block, [row], tree_row(self._ready, [env_id]))
            raised[row] = error
            infos[row] = {}
            if self._may_restart(env_id, error):
                infos[row] = {"abnormal": True, "error": error.message}
                ended[row] = (False, True)
            else:
                errors.append(error)
                ended.pop(row, None)
                self._episodes.stop(env_id, EnvState.ERROR)
        return block, reward, errors

    def _error_of(
        self, env_id: int, action: Any, cause: Exception | None, obs: Any, reward: Any
    ) -> DicoreError | None:
        """Returns the error of one environment's step, or None."""
        where, seed = self._episodes.where(env_id), self._episodes.seed[env_id]
        if cause is not None:
            error = step_error(env_id, where, seed, action, cause)
            error.__cause__ = cause
            return error
        fault = self._storage.fault(obs) or reward_fault(reward)[1]
        return None if fault is None else data_error(env_id, where, seed, fault)

    def _may_restart(self, env_id: int, error: DicoreError) -> bool:
        """Returns whether a failed environment may begin a new episode; prepares it."""
        used, budget = self._episodes.restarts[env_id], self._cfg.restart_budget
        if used >= budget:
            return False
        _LOG.warning("%s; restart %d/%d", error.message, used + 1, budget)
        if self._cfg.retry_type == "renew":
            self._pool.discard(env_id)
        return True

    def _end_episodes(
        self,
        results: Results,
        block: Any,
        id_list: list[int],
        buffers: ObsBuffers | None,
        errors: list[DicoreError],
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Ends episodes and begins the next ones; returns terminated and truncated [K]."""
        _, _, infos, ended, raised = results
        episodes = self._episodes
        none = self._none_ended
        if id_list is self._id_list:
            ready = self._storage.copy(block) if buffers is None else buffers.copy(block)
        else:
            none = none[: len(id_list)]
            ready = self._storage.copy(self._ready)
            self._storage.put(ready, id_list, block)
        terms, truncs = none.copy(), none.copy()
        to_begin: list[int] = []
        for row, (terminated, truncated) in ended.items():
            terms[row], truncs[row] = terminated, truncated
            env_id = id_list[row]
            if row in raised:
                episodes.cut(env_id)
            else:
                infos[row] = episodes.end(env_id, infos[row])
            if episodes.state[env_id] is RUN:
                to_begin.append(env_id)
        errors += self._begin_many(to_begin, ready)
        self._ready = ready
        return terms, truncs

    # ---- attributes and methods of the environments

    @property
    def reward_space(self) -> Any:
        """Of one environment: a float32 scalar unless the environment declares another."""
        with contextlib.suppress(EnvSpaceError):
            return self._pool.space("reward_space", "rew_space")
        from gymnasium.spaces import Box

        low, high = getattr(self._pool.env(0).env, "reward_range", (-np.inf, np.inf))
        return Box(low, high, (), np.float32)

    @property
    def env_info(self) -> dict[str, Any]:
        """Number of environments and the three spaces."""
        return {
            "env_num": self.env_num,
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "reward_space": self.reward_space,
        }

    def info(self) -> EnvInfo:
        """Returns the number of agents and the three spaces, in the older form."""
        agents = getattr(self._pool.env(0).env, "agent_num", 1)
        return EnvInfo(agents, self.observation_space, self.action_space, self.reward_space)

    @property
    def ready_imgs(self) -> dict[int, Any]:
        """Rendered images of the environments that wait for an action, by env id."""
        return {env_id: self._pool.method(env_id, "render")() for env_id in self.ready_obs}

    def env_attr(self, name: str) -> list[Any]:
        """Returns an attribute of every environment.

        Raises:
            AttributeError: an environment has no such attribute.
        """
        return [self._pool.attribute(env_id, name) for env_id in self._id_list]

    def env_call(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Calls a method of every environment, if it is in `method_name_list`.

        Raises:
            UsageError: the method is not in the list.
            AttributeError: an environment has no such method.
        """
        if name not in self.method_name_list:
            raise UsageError(
                f"'{name}' may not be called on environments",
                hint=f"one of {', '.join(self.method_name_list)}; attributes: env_attr",
            )
        return [self._pool.method(i, name)(*args, **kwargs) for i in self._id_list]

    def enable_save_replay(self, replay_path: str | Sequence[str]) -> None:
        """Records episodes from now on, in environments that can; one folder, or one per env.

        Raises:
            UsageError: an environment cannot record, or the number of folders differs.
        """
        one = isinstance(replay_path, str)
        paths = [replay_path] * self.env_num if one else list(replay_path)
        if len(paths) != self.env_num:
            raise UsageError(f"{len(paths)} folders for {self.env_num} environments")
        for env_id, path in enumerate(paths):
            self._record(env_id, "enable_save_replay", path)

    def enable_save_figure(self, env_id: int, figure_path: str) -> None:
        """Makes one environment save figures from now on.

        Raises:
            UsageError: the environment cannot save figures.
        """
        self._record(env_id, "enable_save_figure", figure_path)

    def _record(self, env_id: int, name: str, path: Any) -> None:
        try:
            method = self._pool.method(env_id, name)
        except AttributeError:
            raise UsageError(f"env {env_id} ({self._pool.env(env_id).env}) has no {name}") from None
        method(path)

    def reward_shaping(self, env_id: int, transitions: Any) -> Any:
        """Calls the environment's `reward_shaping`; without one, returns `transitions` as is."""
        try:
            shape = self._pool.method(env_id, "reward_shaping")
        except AttributeError:
            return transitions
        return shape(transitions)


def _abnormal(infos: list[Any], id_list: list[int]) -> npt.NDArray[np.bool_] | None:
    try:
        flags = [bool(info and info.get("abnormal")) for info in infos]
    except AttributeError:
        odd = [bool(info) and not hasattr(info, "get") for info in infos].index(True)
        raise EnvError(
            f"env {id_list[odd]}: info is a {type(infos[odd]).__name__}, not a dict",
            hint="step(action) returns obs, reward, terminated, truncated, info (gymnasium's API)",
            context={"env_id": id_list[odd]},
        ) from None
    return np.array(flags) if any(flags) else None
