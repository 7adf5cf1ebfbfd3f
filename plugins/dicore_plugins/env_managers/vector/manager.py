"""The manager of vector envs, which step all their environments in one call.

Shapes: N environments, K of them stepped, `...` one observation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from numpy import ndarray

from dicore.config.sections import ManagerConfig
from dicore.data import EnvBatch, StateDict, TimestepBatch, Tree, tree_map
from dicore.errors import DicoreError, EnvStateError, UsageError
from dicore.interfaces.env_manager import EnvState
from dicore_plugins.env_managers.actions import actions_of, batch_of, ids_of
from dicore_plugins.env_managers.base.manager import BaseEnvManager
from dicore_plugins.env_managers.episodes import RUN
from dicore_plugins.env_managers.faults import after_failures
from dicore_plugins.env_managers.lifecycle import Resets
from dicore_plugins.env_managers.vector.columns import Columns, put, retried, rows_of
from dicore_plugins.env_managers.vector.config import VectorManagerConfig, VectorOptions
from dicore_plugins.env_managers.vector.infos import Infos
from dicore_plugins.env_managers.vector.pool import (
    DISABLED,
    NEXT_STEP,
    SAME_STEP,
    VectorPool,
    factories,
)  # fmt: skip

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["VectorEnvManager"]

_LOG = logging.getLogger("dicore.env")
_INT64 = np.dtype(np.int64)
Ids = npt.NDArray[np.int64]


class VectorEnvManager(BaseEnvManager):
    """Steps a vector env: one object with N environments; the contract is `IEnvManager`.

    What the vector env does at the end of an episode decides what the manager can do:

    - `Disabled` (also SyncVectorEnv, which the manager makes itself): the manager resets with a
      seed per episode.
    - `SameStep`: all environments are ready after each step.
    - `NextStep`: an environment whose episode ended is missing from `ready_obs` until the next
      step, in which it is reset. The row of that step is no timestep and is not returned.

    All environments are stepped together: `step` must be given all that are ready. Only those at
    the start of an episode may be left out; they run an episode that nobody sees before they are
    ready again. After a failed step, new episodes begin in all environments. Running episodes
    cannot be resumed: after loading a state, the next episodes begin.

    Args:
        env_fn: One factory per environment; see `VectorPool`.
        cfg: Options, as a section, a dict, or None for the defaults.
    """

    config_class: ClassVar[type[ManagerConfig]] = VectorManagerConfig
    pool_class = VectorPool
    _pool: VectorPool

    def __init__(
        self,
        env_fn: Sequence[Callable[[], Env]],
        cfg: VectorOptions | Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(env_fn, cfg)
        self._options: Any = None
        self._reseed = True
        self._ready_ids: Ids = self._ids
        self._everyone = np.ones(self.env_num, np.bool_)
        self._resetting: list[int] = []
        self._left_out: dict[int, bool] = {}
        self._idle_actions: Tree = None

    @classmethod
    def of(cls, make_vec: Callable[[int], Any], env_num: int, cfg: Any = None) -> Self:
        """Returns the manager of a vector env.

        Args:
            make_vec: Takes the number of environments and returns a `gymnasium.vector.VectorEnv`.
            env_num: N.
            cfg: As for the class.
        """
        return cls(factories(make_vec, env_num), cfg)

    @property
    def capabilities(self) -> frozenset[str]:  # type: ignore[override] # known once it is made
        """Depends on what the vector env does at the end of an episode."""
        if self._pool.mode == DISABLED:
            return frozenset({"lockstep", "episode_seed", "manual_reset"})
        return frozenset({"lockstep"} if self._pool.mode == SAME_STEP else ())

    def env_state(self, env_id: int) -> EnvState:
        """Returns the state of one environment."""
        if not self._closed and self._episodes.state[env_id] is EnvState.RUN:
            if env_id in self._resetting:
                return EnvState.RESET
            return EnvState.STEP if env_id in self._left_out else EnvState.RUN
        return super().env_state(env_id)

    # ---- launch and reset

    def launch(self, reset_param: Resets = None) -> None:
        """Makes the vector env and begins an episode in each environment; see the base class.

        Raises:
            UsageError: `auto_reset` is off, and the vector env resets by itself.
        """
        if not self._cfg.auto_reset and self._pool.mode != DISABLED:
            raise UsageError(
                f"env.manager.auto_reset=false: {type(self._pool.vec).__name__} resets its"
                " environments by itself",
                hint="set env.manager.auto_reset=true",
            )
        self._mode = self._pool.mode
        super().launch(reset_param)

    def seed(
        self,
        seed: int | Sequence[int] | Mapping[int, int],
        dynamic_seed: bool | None = None,
        role: str = "collector",
    ) -> None:
        """Seeds the next episodes; vector envs that reset by themselves use env 0's as theirs."""
        super().seed(seed, dynamic_seed, role)
        self._reseed = True

    def restart_episodes(self) -> None:
        """Restarts the sequence of episode seeds; takes effect at the next reset."""
        super().restart_episodes()
        self._reseed = True

    def reset(self, reset_param: Resets = None) -> None:
        """Begins new episodes in all environments, or in some if the manager resets them.

        Values of a dict are `{"options": …}` for the vector env's reset, or None.

        Raises:
            UsageError: only some are given, and the vector env resets by itself, or a step failed.
        """
        self._check_open("reset")
        chosen = self._id_list if reset_param is None else ids_of(reset_param)
        for env_id in chosen:
            self._episodes.check_known(env_id)
        if isinstance(reset_param, Mapping):
            self._remember(reset_param)
        whole = len(set(chosen)) == self.env_num
        if not whole and (self._pool.mode != DISABLED or EnvState.ERROR in self._episodes.state):
            raise UsageError(
                f"environments {chosen} of {type(self._pool.vec).__name__} cannot be reset without"
                " the others",
                hint="call reset() for all, or set env.manager.type=base",
            )
        self._episodes.reopen(chosen)
        if whole:
            self._begin_all()
        else:
            for env_id in chosen:
                self._left_out.pop(env_id, None)
            self._block = self._begin_some(chosen)
        self._list_ready()
        self._bounds.check(self._storage, self._block)

    def _remember(self, params: Mapping[int, Mapping[str, object] | None]) -> None:
        given = [each for each in params.values() if each]
        if not given:
            return
        if any(each != given[0] for each in given) or set(given[0]) != {"options"}:
            raise UsageError(
                f"the environments of a vector env cannot be reset with {list(given)}",
                hint="pass {env_id: {'options': …}}, the same for all",
            )
        self._options = given[0]["options"]

    def _resume(self) -> None:
        """Begins new episodes, the next ones of a loaded state."""
        self._obs_buffers = None
        told = self._pool.described()
        self._columns = Columns(self._storage, self._episodes, self._reward_shape, *told)
        self._pool.load_layers(self._loaded_layers or ())
        running, self._loaded_running, self._loaded_layers = self._loaded_running, None, None
        if running is not None:
            _LOG.warning("a vector env cannot repeat episodes: %d new ones begin", self.env_num)
        self._reseed = True
        self.reset()
        if self._loaded_counts is not None:
            self._episodes.finished, self._episodes.restarts = self._loaded_counts
            self._loaded_counts = None

    def state_dict(self) -> StateDict:
        """Returns seeds and counters; running episodes are not resumed."""
        running = None if self._closed else [None] * self.env_num
        return {**super().state_dict(), "running": running}

    def _begin_all(self) -> None:
        seeds = [self._seeds.next(env_id) for env_id in self._id_list]
        begin = self._pool.begin
        if not self._pool.seeds_each:
            seeds = seeds[:1] * self.env_num
        self._resetting, self._left_out = [], {}
        options, reseed = self._options, self._reseed
        self._block = self._begun_all(self._id_list, seeds, lambda: begin(seeds, options, reseed))
        self._reseed = False

    def _begin_some(self, rows: list[int]) -> object:
        """Resets some environments, in those left out without counting an episode.

        Returns:
            Observations of all environments [N, ...].
        """
        left = self._left_out
        seeds = [self._seeds.peek(i) if i in left else self._seeds.next(i) for i in rows]
        return self._begun_all(
            rows, seeds, lambda: self._pool.begin_some(rows, seeds, self._options)
        )

    def _begun_all(
        self, rows: list[int], seeds: Sequence[int], begin: Callable[[], object]
    ) -> object:
        """Begins episodes; returns checked observations of all environments [N, ...]."""
        try:
            obs = retried(begin, rows, seeds, self._cfg)
        except DicoreError:
            self.close()
            raise
        block = self._columns.obs(obs, f"the reset with seed {seeds[0]}")
        for env_id, seed in zip(rows, seeds, strict=True):
            if env_id not in self._left_out:
                self._episodes.begin(env_id, seed)
        return block

    # ---- stepping

    @property
    def ready_obs(self) -> EnvBatch[Tree]:
        """Observations [K, ...] of the environments that wait for an action, by env id.

        Raises:
            ClosedError: the manager is not launched.
        """
        if self._closed:
            self._check_open("ready_obs")
        ids = self._ready_ids
        whole = ids is self._ids
        return EnvBatch(ids, self._block if whole else rows_of(self._block, ids))

    def _list_ready(self) -> None:
        """Lists the environments that wait for an action."""
        left = self._left_out
        absent = [*self._resetting, *left] if left else self._resetting
        if not absent:
            self._ready_ids = self._ids
            return
        ready = self._everyone.copy()
        for env_id in absent:
            ready[env_id] = False
        self._ready_ids = ready.nonzero()[0]

    def _step(self, action: Mapping[int, Tree], buffers: Any) -> EnvBatch[TimestepBatch]:
        if self._closed:
            self._check_open("step")
        batch = action if action.__class__ is EnvBatch else batch_of(action, self._check)
        ids = batch.env_id
        if ids is not self._ready_ids:
            ids = self._checked_ids(ids)
        actions = self._actions_of_all(batch.value, ids)
        if ids is not self._ready_ids:
            left = np.setdiff1d(self._ready_ids, ids).tolist()
            self._left_out.update(dict.fromkeys(left, True))
        try:
            return self._timesteps(ids, actions)
        except DicoreError as error:
            return self._failed(ids, error)

    def _timesteps(self, ids: Ids, actions: Tree) -> EnvBatch[TimestepBatch]:
        """Steps the vector env; returns the timesteps of `ids`."""
        obs, reward, terminated, truncated, info = self._advance(actions)
        whole, over = ids is self._ids, self._over(terminated, truncated)
        if not whole:
            obs, reward = rows_of(obs, ids), reward.take(ids, 0)
            terminated, truncated = terminated.take(ids), truncated.take(ids)
        infos: Any = Infos(info, ids)
        rows = (terminated | truncated).nonzero()[0]
        if rows.size:
            at = rows.tolist()
            ended = at if whole else ids.take(rows).tolist()
            if self._mode == SAME_STEP:
                obs = self._final_obs(obs, at, infos)
            made, end = infos.made, self._episodes.end
            for row, env_id in zip(at, ended, strict=True):
                made[row] = end(env_id, infos[row] if info else None)
            over += ended
        if over:
            self._continue(over)
        self._list_ready()
        if self._resetting and not self._ready_ids.size:
            self._wait_for_reset()
        abnormal = infos.abnormal() if info else None
        timestep = TimestepBatch(obs, reward, terminated, truncated, infos, abnormal)
        return EnvBatch(ids, timestep, self._position if whole else None)

    def _over(self, terminated: Tree, truncated: Tree) -> list[int]:
        """Returns the environments left out whose episode ended."""
        return [each for each in self._left_out if terminated[each] or truncated[each]]

    def _advance(self, actions: Tree) -> tuple[Tree, Tree, Tree, Tree, Mapping[str, Tree]]:
        """Steps the vector env and checks what it returns.

        Returns:
            Observations, rewards, terminated, truncated [N, ...] and info.
        """
        episodes, columns = self._episodes, self._columns
        episodes.clock += 1
        try:
            obs, reward, terminated, truncated, info = self._pool.vec.step(actions)
        except (Exception, SystemExit) as error:
            raise columns.step_error(error, actions) from error
        except BaseException:  # Ctrl-C: nobody knows which environments were stepped
            self._stop_all()
            raise
        block, reward, info = columns.obs(obs), columns.reward(reward), columns.info(info)
        terminated, truncated = columns.flags(terminated), columns.flags(truncated)
        self._block = block
        episodes.total += reward
        if self._resetting:
            self._begin_again(self._resetting)
            self._resetting = []
        if self._bounds_checks:
            self._bounds_checks -= 1
            self._bounds.check(self._storage, block)
        return block, reward, terminated, truncated, info

    def _begin_again(self, env_ids: list[int]) -> None:
        """Begins episodes of environments that the vector env has reset."""
        self._episodes.begin_again(env_ids)
        count = self._seeds.episodes
        for env_id in env_ids:
            count[env_id] += 1

    def _continue(self, over: list[int]) -> None:
        """Begins the episodes that follow those that ended, now or in the next step."""
        left, states = self._left_out, self._episodes.state
        for env_id in over if left or not self._episodes.all_run else ():
            if states[env_id] is RUN:
                left.pop(env_id, None)
            else:
                left[env_id] = False
        if self._mode == DISABLED:
            self._block = self._begin_some(over)
            return
        begins = [env_id for env_id in over if env_id not in left] if left else over
        if self._mode == NEXT_STEP:
            self._resetting = begins
            return
        self._begin_again(begins)

    def _wait_for_reset(self) -> None:
        """Steps the vector env once more, in which all environments are reset or left out."""
        _, _, terminated, truncated, _ = self._advance(self._idle())
        self._continue(self._over(terminated, truncated))
        self._list_ready()

    def _final_obs(self, obs: Tree, rows: list[int], infos: Infos) -> Tree:
        """Returns observations with the last ones of episodes, and sets their infos."""
        obs = self._storage.copy(obs)
        for row in rows:
            last = infos[row].get("final_obs")
            fault = self._storage.fault(last)
            if fault is not None:
                raise self._columns.error(infos.env_ids[row], fault)
            self._storage.write(obs, row, last)
            infos[row] = infos[row].get("final_info", {})
        return obs

    def _checked_ids(self, ids: Ids) -> Ids:
        """Returns the given ids; those that are ready, if they are the same.

        Raises:
            EnvStateError: one is not ready, or one that is within an episode is left out.
        """
        ready = self._ready_ids
        if np.array_equal(ids, ready) and (len(ids) or self._resetting or self._waits()):
            return ready
        if not len(ids) and not self._waits():
            self._nothing()
        self._episodes.check_running(ids.tolist())
        unready = ids[~np.isin(ids, ready)].tolist()
        if unready:
            first, state = unready[0], self.env_state(unready[0])
            raise EnvStateError(
                f"env {first} is {state.name} ({state.value}) and cannot be stepped",
                hint="step those in ready_obs",
                context={"env_id": first, "state": state.name},
            )
        within = [i for i in np.setdiff1d(ready, ids).tolist() if self._episodes.length(i)]
        if within:
            raise EnvStateError(
                f"{type(self._pool.vec).__name__} steps all its environments together;"
                f" {within} are within an episode and got no action",
                hint="step all in ready_obs, or set env.manager.type=base",
                context={"env_ids": within},
            )
        return ids

    def _waits(self) -> bool:
        """Returns whether environments that were left out will be ready again."""
        return any(self._left_out.values())

    def _actions_of_all(self, value: Tree, ids: Ids) -> object:
        """Returns checked actions of all environments; those not stepped get any legal one."""
        if not len(ids):
            return self._idle()
        actions = value["action"] if value.__class__ is dict and "action" in value else None
        if (
            actions.__class__ is not ndarray
            or actions.dtype is not _INT64
            or actions.ndim != 1
            or len(values := actions.tolist()) != len(ids)
            or not self._legal.issuperset(values)
        ):
            given = actions_of(value, nested=self._nested)
            actions = self._check.stacked(given, ids.tolist())
        return actions if ids is self._ids else put(self._idle(), ids, actions)

    def _idle(self) -> Tree:
        """Returns legal actions of all environments, whose effect nobody sees."""
        if self._idle_actions is None:
            self._idle_actions = self._check.draw(self.env_num, np.random.default_rng(0))
        idle = self._idle_actions
        return idle.copy() if idle.__class__ is ndarray else tree_map(np.copy, idle)

    def _failed(self, ids: Ids, error: DicoreError) -> EnvBatch[TimestepBatch]:
        """Begins new episodes in all environments after a failed step, or raises its error.

        Returns:
            Timesteps that are marked abnormal.
        """
        number = 0 if self._closed else self._episodes.discard(self._id_list, error, self._cfg)
        if not number:
            self._stop_all()
            raise after_failures(error, self._episodes.failures[0])
        of_budget = number, self._cfg.restart_budget
        _LOG.warning("%s; restart %d/%d of all environments", error.message, *of_budget)
        last = rows_of(self._block, ids)
        self._begin_all()
        self._list_ready()
        return EnvBatch(ids, self._columns.abnormal(last, len(ids), error))

    def _stop_all(self) -> None:
        """Makes all environments wait for a reset of all."""
        for env_id in self._id_list:
            self._episodes.stop(env_id, EnvState.ERROR)
        self._ready_ids = self._ids[:0]
