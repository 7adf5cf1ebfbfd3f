"""The in-process env manager: a plain loop over environments, then whole columns.

Shapes: N environments, K of them named, `...` one observation.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy import array, float32, ndarray

from dicore.data import EnvBatch, TimestepBatch, tree_row
from dicore.errors import DicoreError, EnvError
from dicore.interfaces.env_manager import EnvState
from dicore_plugins.env_managers.actions import actions_of, batch_of, draw_actions
from dicore_plugins.env_managers.base.episodes import RUN
from dicore_plugins.env_managers.base.lifecycle import ManagedFleet
from dicore_plugins.env_managers.base.obs_buffers import Memory
from dicore_plugins.env_managers.faults import all_of, data_error, reward_fault, step_error

__all__ = ["BaseEnvManager"]

_LOG = logging.getLogger("dicore.env")
_INT64 = np.dtype(np.int64)
_NAN = np.full(1, np.nan, float32)


Answers = tuple[list[Any], list[Any], list[Any], dict[int, tuple[bool, bool]], dict[int, Exception]]
"""Of K environments: observations, rewards and infos by row; (terminated, truncated) of the rows
whose episode ended; what the steps of some rows raised."""


class BaseEnvManager(ManagedFleet):
    """Steps N environments in the calling process; the contract is `IEnvManager`.

    An environment whose step raises, or whose data cannot be learned from, spoils its episode: as
    often as `restart_budget` allows, it answers with a truncated step marked `abnormal` and begins
    anew; after that the step raises. The others have made their step all the same.

    Args:
        env_fn: One factory per environment; called at `launch` (one earlier, if spaces are asked).
        cfg: Options, as a section, a dict, or None for the defaults.

    Raises:
        UsageError: there is no factory.
    """

    @property
    def ready_obs(self) -> EnvBatch[Any]:
        """Observations [K, ...] of the environments that wait for an action, by env id.

        Raises:
            ClosedError: the manager is not launched.
        """
        if self._closed:
            self._check_open("ready_obs")
        if self._books.all_run:
            return EnvBatch(self._ids, self._ready, self._position)
        rows = [i for i in self._id_list if self._books.state[i] is EnvState.RUN]
        return EnvBatch(self._ids[rows], tree_row(self._ready, rows))

    @property
    def ready_imgs(self) -> dict[int, Any]:
        """Pictures of the environments that wait for an action, as they render them."""
        return {env_id: self._method(env_id, "render")() for env_id in self.ready_obs}

    def random_action(self) -> EnvBatch[Any]:
        """Draws a legal action for each environment that waits for one."""
        from dicore.run.random import stream

        ready = self.ready_obs
        rng = stream("env_manager/random_action")
        return ready.with_value({"action": draw_actions(self.action_space, len(ready), rng)})

    def step(self, action: Mapping[int, Any]) -> EnvBatch[Any]:
        """Acts in the environments named; what is returned is never written again.

        See `IEnvManager.step`. Observations are the true last ones of episodes that end; the first
        ones of the next episode are in `ready_obs`.
        """
        return self._step(action, None)

    def step_into(self, action: Mapping[int, Any], out: Any = None) -> EnvBatch[Any]:
        """Steps like `step` into memory that is used again.

        Observations returned here and by `ready_obs` are valid until the next but one such call.

        Args:
            action: As for `step`.
            out: Memory [K, ...] of the caller into which the observations are written instead.
        """
        memory = self._memory
        if memory is None:
            answer = self._step(action, None)
        else:
            answer = self._step(action, memory)
            memory.hand_out(answer.value.obs, self._ready)
        if out is not None:
            answer.value.obs = self._storage.copy(answer.value.obs, out)
        return answer

    def _step(self, action: Mapping[int, Any], memory: Memory | None) -> EnvBatch[Any]:  # noqa: C901, PLR0912, PLR0915 - each call less is 1 % of CartPole's steps
        if self._closed:
            self._check_open("step")
        batch = action if action.__class__ is EnvBatch else batch_of(action)
        ids, value, books = batch.env_id, batch.value, self._books
        whole, id_list, steps, scale = True, self._id_list, self._steps, self._scale
        if ids is not self._ids or not books.all_run:
            id_list = ids.tolist()
            books.check_running(id_list)
            whole = id_list == self._id_list
            steps, scale = [steps[i] for i in id_list], scale[: len(id_list)]
        actions = value["action"] if value.__class__ is dict and "action" in value else None
        if (
            actions.__class__ is not ndarray
            or actions.dtype is not _INT64
            or actions.ndim != 1
            or len(values := actions.tolist()) != len(id_list)
            or not self._legal.issuperset(values)
        ):
            actions = self._check(actions_of(value, nested=self._nested), id_list)
        if memory is not None:
            memory.turn()

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
                _leave_gap(error, obs, rewards, infos, ended, raised)
            else:
                break

        journal = self._journal
        if journal is not None:
            journal.steps.append((id_list, actions))
            journal.count += 1
        books.clock += 1
        if books.clock >= books.deadline or not whole:
            books.tick(id_list, ended)
        block = self._storage.gather(obs, memory.room() if memory is not None and whole else None)
        try:
            earned = array(rewards, float32)
            sound = earned.shape == scale.shape and isfinite(earned.dot(scale))
        except (TypeError, ValueError, RuntimeError, RuntimeWarning):
            earned, sound = _NAN, False
        errors: list[DicoreError] = []
        if block is None or raised or not sound:
            answers = (obs, rewards, infos, ended, raised)
            block, earned, errors = self._look_closer(answers, actions, id_list)
        if self._inspect:
            self._inspect -= 1
            self._compare(block)
        if whole:
            books.total += earned
        else:
            books.total[id_list] += earned
        abnormal = _abnormal(infos, id_list) if any(infos) else None
        none = self._none_ended
        if whole and not ended and not errors:
            self._ready = block
            timestep = TimestepBatch(block, earned, none, none, infos, abnormal)
            return EnvBatch(ids, timestep, self._position)

        if whole and memory is None:
            ready, terms, truncs = self._storage.copy(block), none.copy(), none.copy()
        else:
            ready = self._ready_after(block, id_list, memory, whole=whole)
            terms, truncs = np.zeros((2, len(obs)), np.bool_)
        for row, (terminated, truncated) in ended.items():
            terms[row], truncs[row] = terminated, truncated
            env_id = id_list[row]
            if row in raised:
                books.cut(env_id)
            else:
                infos[row] = books.end(env_id, infos[row])
            if books.state[env_id] is RUN:
                try:
                    self._begin(env_id, ready)
                except DicoreError as error:
                    errors.append(error)
        self._ready = ready
        if errors:
            raise all_of(errors)
        timestep = TimestepBatch(block, earned, terms, truncs, infos, abnormal)
        return EnvBatch(ids, timestep, self._position if whole else None)

    def _ready_after(
        self, block: Any, id_list: list[int], memory: Memory | None, *, whole: bool
    ) -> Any:
        """Returns observations [N, ...] after a step of some environments, to be written into."""
        if whole and memory is not None:
            return memory.copy(block)
        ready = self._storage.copy(self._ready)
        self._storage.put(ready, id_list, block)
        return ready

    def _look_closer(
        self, answers: Answers, actions: Iterable[Any], id_list: list[int]
    ) -> tuple[Any, npt.NDArray[np.float32], list[DicoreError]]:
        """Goes through answers of which some are at fault, one by one.

        Returns:
            Observations [K, ...], rewards [K] (where there is a fault, the last observation before
            it and 0), and the errors of the environments that may not begin anew.
        """
        obs, rewards, infos, ended, raised = answers
        storage, acts = self._storage, list(actions)
        block = storage.empty(len(id_list))
        reward = np.zeros(len(id_list), float32)
        errors: list[DicoreError] = []
        for row, env_id in enumerate(id_list):
            cause = raised.get(row)
            error = self._error_of(env_id, acts[row], cause, obs[row], rewards[row])
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
                self._books.stop(env_id, EnvState.ERROR)
        return block, reward, errors

    def _error_of(
        self, env_id: int, action: Any, cause: Exception | None, obs: Any, reward: Any
    ) -> DicoreError | None:
        """Returns what is wrong with the answer of one environment, or None."""
        where, seed = self._books.where(env_id), self._books.seed[env_id]
        if cause is not None:
            error = step_error(env_id, where, seed, action, cause)
            error.__cause__ = cause
            return error
        fault = self._storage.fault(obs) or reward_fault(reward)[1]
        return None if fault is None else data_error(env_id, where, seed, fault)

    def _may_restart(self, env_id: int, error: DicoreError) -> bool:
        """Says whether a failed environment begins anew; prepares it."""
        used, budget = self._books.restarts[env_id], self._cfg.restart_budget
        if used >= budget:
            return False
        _LOG.warning("%s; restart %d/%d", error.message, used + 1, budget)
        if self._cfg.retry_type == "renew":
            self._discard(env_id)
        return True


def _leave_gap(error: Exception, *answers: Any) -> None:
    """Takes notice that a step raised; its row stays empty."""
    obs, rewards, infos, ended, raised = answers
    raised[len(obs)] = error
    ended.pop(len(obs), None)
    obs.append(None)
    rewards.append(0.0)
    infos.append({})


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
