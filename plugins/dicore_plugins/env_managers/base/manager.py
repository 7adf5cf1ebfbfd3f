"""The in-process env manager: steps environments in a loop and stacks the results.

Shapes: N environments, K of them named, `...` one observation.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import hypot
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import array, float32, ndarray

from dicore.config.sections import ManagerConfig
from dicore.data import EnvBatch, Info, TimestepBatch, Tree, tree_row
from dicore.errors import DicoreError, EnvStateError
from dicore.interfaces.env_manager import EnvState
from dicore_plugins.env_managers.actions import actions_of, batch_of, draw_actions
from dicore_plugins.env_managers.base.config import BaseManagerConfig
from dicore_plugins.env_managers.env_pool import Results
from dicore_plugins.env_managers.episodes import RESET, RUN, kept_info
from dicore_plugins.env_managers.faults import (
    LARGEST,
    Fault,
    after_failures,
    cause_of,
    data_error,
    flag_fault,
    info_fault,
    no_reset,
    reward_fault,
    step_error,
)
from dicore_plugins.env_managers.lifecycle import ManagedEnvs
from dicore_plugins.env_managers.observations import ObsBuffers

if TYPE_CHECKING:
    from dicore.interfaces.env import Env, Space

__all__ = ["BaseEnvManager", "EnvInfo"]

_LOG = logging.getLogger("dicore.env")
_INT64 = np.dtype(np.int64)
_EMPTY: dict[str, object] = {}
Rewards = npt.NDArray[np.float32]


class EnvInfo(NamedTuple):
    """What the older `info()` of an environment returns."""

    agent_num: int
    obs_space: Space
    act_space: Space
    rew_space: Space | None


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

    config_class: ClassVar[type[ManagerConfig]] = BaseManagerConfig

    def __init__(
        self,
        env_fn: Sequence[Callable[[], Env]],
        cfg: ManagerConfig | Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(env_fn, cfg)
        self._ids: npt.NDArray[np.int64] = np.arange(self.env_num)
        self._position = {env_id: env_id for env_id in self._id_list}
        self._none_ended = np.zeros(self.env_num, np.bool_)
        self._none_ended.setflags(write=False)
        self._told: dict[int, str] = {}

    @property
    def restarts(self) -> int:
        """Failed episodes that were discarded since the launch, of all environments."""
        return sum(self._episodes.restarts)

    def env_state(self, env_id: int) -> EnvState:
        """Returns the state of one environment."""
        if self._closed:
            return EnvState.INIT if self._pool.exists(env_id) else EnvState.VOID
        return self._episodes.state[env_id]

    # ---- stepping

    @property
    def ready_obs(self) -> EnvBatch[Tree]:
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

    def random_action(self) -> EnvBatch[Tree]:
        """Draws a legal action for each environment that waits for one."""
        from dicore.run.random import stream

        ready = self.ready_obs
        rng = stream("env_manager/random_action")
        return ready.with_value({"action": draw_actions(self.action_space, len(ready), rng)})

    def step(self, action: Mapping[int, Tree]) -> EnvBatch[TimestepBatch]:
        """Steps the environments named; the returned arrays are never written again.

        See `IEnvManager.step`. Observations of episodes that end are the final ones; the first
        ones of the next episode are in `ready_obs`.
        """
        return self._step(action, None)

    def step_into(self, action: Mapping[int, Tree], out: Tree = None) -> EnvBatch[TimestepBatch]:
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

    def _step(
        self, action: Mapping[int, Tree], buffers: ObsBuffers | None
    ) -> EnvBatch[TimestepBatch]:
        if self._closed:
            self._check_open("step")
        ids, id_list, actions = self._checked_actions(action)
        if buffers is not None:
            buffers.turn()
        whole = id_list is self._id_list
        results = self._pool.step(id_list, actions)
        if results[0] is not id_list:
            ids, id_list, actions = self._answered(id_list, actions, results[0])
            whole = id_list is self._id_list
        _, _, _, infos, ended, _ = results
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
        abnormal = _kept(infos) if any(infos) else None
        if whole and not ended and not errors:
            self._ready, none = block, self._none_ended
            timestep = TimestepBatch(block, reward, none, none, infos, abnormal)
            return EnvBatch(ids, timestep, self._position)
        terminated, truncated = self._end_episodes(results, block, id_list, buffers, errors)
        if errors:
            self._raise_any(errors)
        timestep = TimestepBatch(block, reward, terminated, truncated, infos, abnormal)
        return EnvBatch(ids, timestep, self._position if whole else None)

    def _checked_actions(self, action: Mapping[int, Tree]) -> tuple[Tree, list[int], Tree]:
        """Returns the env ids, as an array and as a list, and the actions one by one."""
        batch = action if action.__class__ is EnvBatch else batch_of(action, self._check)
        ids, value, id_list = batch.env_id, batch.value, self._id_list
        if ids is not self._ids or not self._episodes.all_run:
            id_list = ids.tolist()
            if not id_list:
                return ids, id_list, self._nothing()
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

    def _nothing(self) -> list[Tree]:
        """Returns no actions, for a step that only waits."""
        if not self._pending:
            raise EnvStateError(
                "step({}) waits for environments that were sent an action, but none was",
                hint="step those in ready_obs; reset those that ended or failed",
            )
        return []

    def _answered(
        self, sent: list[int], actions: Iterable[Tree], answered: list[int]
    ) -> tuple[Tree, list[int], list[Tree]]:
        """Accounts for environments that answer later, or an earlier call.

        Returns:
            The env ids that answered, as an array and as a list, and their actions.
        """
        self._pending |= zip(sent, actions, strict=True)
        self._episodes.answered(sent, answered)
        taken = [self._pending.pop(env_id) for env_id in answered]
        return np.array(answered, np.int64), answered, taken

    def _checked_block(
        self, results: Results, actions: Tree, id_list: list[int], buffers: ObsBuffers | None
    ) -> tuple[Tree, Rewards, list[DicoreError]]:
        """Stacks and checks observations and rewards at once; row by row if any is invalid.

        Returns:
            Observations [K, ...], rewards [K], and the errors of the environments that failed.
        """
        _, obs, rewards, infos, ended, raised = results
        storage = self._storage
        if obs.__class__ is list:
            whole = id_list is self._id_list
            block = storage.stack(obs, buffers.room() if whole and buffers is not None else None)
        else:
            block = storage.stacked(obs, len(id_list))
            if block is not None and buffers is None:
                block = storage.copy(block)
        try:
            odd = raised or (ended and not _are_flags(ended))
            if infos.count(_EMPTY) != len(infos) and not all(map(_is_dict, infos)):
                odd = True
            if block is not None and not odd:
                if self._reward_shape:
                    shape = (len(id_list), *self._reward_shape)
                    reward, fault = reward_fault(rewards, shape)
                    if fault is None:
                        return block, reward.astype(float32), []
                elif hypot(*rewards) <= LARGEST:  # unlike a sum it warns of nothing
                    reward = array(rewards, float32)
                    if reward.shape == (len(id_list),):
                        return block, reward, []
        except (TypeError, ValueError, OverflowError, RuntimeError, Warning):
            pass
        return self._checked_rows(results, list(actions), id_list)

    def _checked_rows(
        self, results: Results, actions: list[Tree], id_list: list[int]
    ) -> tuple[Tree, Rewards, list[DicoreError]]:
        """Stacks observations and rewards row by row; see `_checked_block`.

        A failed row has the last observation before the failure and reward 0.
        """
        _, obs, rewards, infos, ended, raised = results
        storage, shape = self._storage, self._reward_shape
        block = storage.empty(len(id_list))
        reward = np.zeros((len(id_list), *shape), float32)
        errors: list[DicoreError] = []
        for row, env_id in enumerate(id_list):
            seen = obs[row] if obs.__class__ is list else tree_row(obs, row)
            ended_row = ended.get(row, (False, False))
            faults = (
                lambda seen=seen: storage.fault(seen),
                lambda row=row: reward_fault(rewards[row], shape)[1],
                lambda ended_row=ended_row: flag_fault(ended_row)[1],
                lambda row=row: info_fault(infos[row]),
            )
            error = self._error_of(env_id, actions[row], raised.get(row), faults)
            if error is None:
                storage.write(block, row, seen)
                reward[row] = reward_fault(rewards[row], shape)[0]
                continue
            storage.put(block, [row], tree_row(self._ready, [env_id]))
            raised[row] = error
            infos[row] = {}
            if self._may_restart(env_id, error):
                infos[row] = {"abnormal": True, "error": error.message}
                ended[row] = (False, True)
            else:
                errors.append(after_failures(error, self._episodes.failures[env_id]))
                ended.pop(row, None)
                self._episodes.stop(env_id, EnvState.ERROR)
        return block, reward, errors

    def _error_of(
        self,
        env_id: int,
        action: Tree,
        cause: BaseException | None,
        faults: Iterable[Callable[[], Fault | None]],
    ) -> DicoreError | None:
        """Returns the error of one environment's step, or None."""
        where, seed = self._episodes.where(env_id), self._episodes.seed[env_id]
        if cause is not None:
            error = step_error(env_id, where, seed, action, cause)
            error.__cause__ = cause
            return error
        fault = next(filter(None, (find() for find in faults)), None)
        return None if fault is None else data_error(env_id, where, seed, fault)

    def _may_restart(self, env_id: int, error: DicoreError) -> bool:
        """Returns whether a failed environment may begin a new episode; prepares it."""
        number = self._episodes.discard([env_id], error, self._cfg)
        if not number:
            return False
        cause = cause_of(error.message)
        level = logging.INFO if self._told.get(number) == cause else logging.WARNING
        self._told[number] = cause
        _LOG.log(level, "%s; restart %d/%d", error.message, number, self._cfg.restart_budget)
        if self._cfg.retry_type == "renew":
            self._pool.discard(env_id)
        return True

    def _end_episodes(
        self,
        results: Results,
        block: Tree,
        id_list: list[int],
        buffers: ObsBuffers | None,
        errors: list[DicoreError],
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Ends episodes and begins the next ones; returns terminated and truncated [K]."""
        _, _, _, infos, ended, raised = results
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
        errors += self._begin_next(to_begin, ready)
        self._ready = ready
        return terms, truncs

    def info(self) -> EnvInfo:
        """Returns the number of agents and the three spaces, in the older form."""
        agents = 1
        with contextlib.suppress(AttributeError):
            agents = self._pool.attribute(0, "agent_num")
        return EnvInfo(agents, self.observation_space, self.action_space, self.reward_space)

    @property
    def ready_imgs(self) -> dict[int, Tree]:
        """Rendered images of the environments that wait for an action, by env id."""
        return {env_id: self._pool.call(env_id, "render") for env_id in self.ready_obs}

    def _begin_many(
        self, env_ids: Sequence[int], ready: Tree, seeds: Sequence[int] | None = None
    ) -> list[DicoreError]:
        """Begins episodes, with the next seeds or the given ones; returns the errors.

        The first observations are written to `ready` [N, ...].
        """
        if seeds is None:
            seeds = [self._seeds.next(env_id) for env_id in env_ids]
        for env_id in env_ids:
            self._episodes.state[env_id] = RESET
            self._pending.pop(env_id, None)
        results = self._pool.reset(env_ids, seeds, [self._params[env_id] for env_id in env_ids])
        found = [self._begun(*row, ready) for row in zip(env_ids, seeds, results, strict=True)]
        return [error for error in found if error is not None]

    _begin_next = _begin_many
    """Begins the next episodes after those that ended."""

    def _begun(self, env_id: int, seed: int, result: Tree, ready: Tree) -> DicoreError | None:
        """Begins an episode with what `reset` returned or raised; returns the error, if any."""
        if (
            result.__class__ is not tuple
            or len(result) != 2
            or not self._storage.try_write(ready, env_id, result[0])
        ):
            error = self._begin_slowly(env_id, seed, result, ready)
            if error is not None:
                self._episodes.stop(env_id, EnvState.ERROR)
                return error
        self._episodes.begin(env_id, seed)
        if self._action_log is not None:
            self._action_log.begin(env_id)
        return None

    def _begin_slowly(
        self, env_id: int, seed: int, result: Tree, ready: Tree
    ) -> DicoreError | None:
        """Resets again after an exception, and casts the observation; returns the error, if any."""
        if isinstance(result, BaseException):
            result = self._retry(env_id, seed, result)
            if isinstance(result, DicoreError):
                return result
        if result.__class__ is not tuple or len(result) != 2:
            return no_reset(env_id, seed, result)
        obs, storage = result[0], self._storage
        if not storage.try_write(ready, env_id, obs):
            fault = storage.fault(obs)
            if fault is not None:
                return data_error(env_id, f"the reset with seed {seed}", seed, fault)
            storage.write(ready, env_id, obs)
        return None


def _is_dict(info: object) -> bool:
    return info.__class__ is dict or isinstance(info, Mapping)


def _are_flags(ended: dict[int, tuple[object, object]]) -> bool:
    """Makes (terminated, truncated) bools; returns whether all are valid."""
    for row, flags in ended.items():
        terminated, truncated = flags
        if terminated.__class__ is bool and truncated.__class__ is bool:
            continue
        ended[row], fault = flag_fault(flags)
        if fault is not None:
            ended[row] = flags
            return False
    return True


def _kept(infos: list[Info]) -> npt.NDArray[np.bool_] | None:
    """Copies infos, which environments may change later; returns which steps are abnormal."""
    infos[:] = [kept_info(each) if each else each for each in infos]
    flags = [bool(info and np.any(info.get("abnormal", False))) for info in infos]
    return np.array(flags) if any(flags) else None
