"""The env manager that does not wait for all environments: the slow ones answer later.

Shapes: N environments, K of them answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from dicore.config.compiler import as_config
from dicore.data import EnvBatch, StateDict, TimestepBatch, Tree
from dicore.errors import DicoreError
from dicore.interfaces.env_manager import EnvState
from dicore_plugins.env_managers.asynchronous.config import EnvSupervisorConfig
from dicore_plugins.env_managers.base.manager import BaseEnvManager
from dicore_plugins.env_managers.env_pool import Results
from dicore_plugins.env_managers.episodes import RESET, RUN
from dicore_plugins.env_managers.faults import reset_error, retry_wait
from dicore_plugins.env_managers.observations import ObsBuffers
from dicore_plugins.env_managers.subprocess.manager import WorkersManager
from dicore_plugins.env_managers.threads.pool import ThreadPool

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["AsyncEnvManager", "AsyncSteps"]


class AsyncSteps(Protocol):
    """What `AsyncEnvManager` needs of a pool, beside the methods of `EnvPool`.

    Attributes:
        cfg: The manager's options.
        settled: Resets that were done between the last two calls of `step`; set by the manager.
    """

    cfg: Any
    settled: int | None

    def send(self, ids: list[int], actions: Iterable[Tree]) -> None:
        """Sends actions and returns at once."""

    def wait(self, at_least: int, more_s: float) -> Results:
        """Returns timesteps.

        Args:
            at_least: Waits for so many timesteps and resets; fewer if fewer timesteps are pending.
            more_s: Waits so many seconds for the other timesteps.
        """

    def begin_reset(self, env_id: int, seed: int, params: Mapping[str, object]) -> None:
        """Begins to reset an environment, and makes it before if needed; returns at once."""

    def resets_done(self, until: float) -> dict[int, Tree]:
        """Returns what resets returned or raised, by env id.

        Args:
            until: Waits for one until this time of `time.monotonic`.
        """


class _Reset(NamedTuple):
    """A reset in progress.

    Args:
        seed: Of the episode.
        tries: Attempts so far.
        due: When the next attempt begins, by `time.monotonic`; None: one is under way.
    """

    seed: int
    tries: int
    due: float | None


class AsyncEnvManager(WorkersManager):
    """Steps N environments, each at its own pace; see `BaseEnvManager`.

    `step` sends the actions given and returns once `wait_num` environments have answered and
    `step_wait_timeout` is over, or once all have; the others answer in later calls. An environment
    whose episode ended is reset while the others go on, unless `reset_inplace`; it is in
    `ready_obs` again when that is done, including retries. A reset that is done counts as an
    answer, so that `step` may return no timestep.

    Environments run in processes, or in threads (`children`). The methods that it needs of its pool
    are those of `AsyncSteps`.

    Args:
        env_fn: One factory per environment; for processes, pickled by cloudpickle.
        cfg: Options, as a section, a dict, or None for the defaults; see `EnvSupervisorConfig`.
        output: Folder for files of what the environments print in processes; None: they print to
            the terminal.
    """

    config_class = EnvSupervisorConfig
    capabilities = BaseEnvManager.capabilities - {"lockstep"} | {"deadlines"}

    def __init__(
        self, env_fn: Sequence[Callable[[], Env]], cfg: Any = None, output: Path | None = None
    ) -> None:
        cfg = as_config(cfg, self.config_class)
        if cfg.get("children") == "thread":
            self.pool_class = ThreadPool  # type: ignore[misc] # of this manager
        else:
            from dicore_plugins.env_managers.subprocess.pool import ProcessPool

            self.pool_class = ProcessPool  # type: ignore[misc]
            self.capabilities = self.capabilities | {"workers"}
        super().__init__(env_fn, cfg, output)
        self._max_tries = cfg.get("max_try") or cfg.max_retry
        self._resets: dict[int, _Reset] = {}

    # ---- stepping

    @property
    def ready_obs(self) -> EnvBatch[Tree]:
        """Observations [K, ...] of the environments that wait for an action, by env id.

        Waits for a reset if there is nothing else to wait for.

        Raises:
            ClosedError: the manager is not launched.
            EnvResetError: an environment failed more often than `max_retry` allows; the manager
                is closed.
        """
        if self._resets:
            self._settle(wait=not self._pending and RUN not in self._episodes.state)
        return super().ready_obs

    def step(self, action: Mapping[int, Tree], *, block: bool = True) -> EnvBatch[TimestepBatch]:
        """Steps the environments named; the returned arrays are never written again.

        See `IEnvManager.step`.

        Args:
            action: As for `IEnvManager.step`.
            block: Wait for timesteps; False: send the actions and return no timestep at once.
        """
        if block:
            return self._step(action, None)
        self._check_open("step")
        self._settle()
        if not len(action):
            return self._no_timesteps()
        _, ids, actions = self._checked_actions(action)
        actions = list(actions)
        self._pool.send(ids, actions)
        self._pending |= zip(ids, actions, strict=True)
        self._episodes.answered(ids, [])
        return self._no_timesteps()

    def recv(self) -> EnvBatch[TimestepBatch]:
        """Waits for timesteps of environments that were sent an action: `step({})`."""
        return self._step({}, None)

    def _step(
        self, action: Mapping[int, Tree], buffers: ObsBuffers | None
    ) -> EnvBatch[TimestepBatch]:
        settled = 0
        if self._resets:
            idle = not self._pending and not len(action)
            settled = self._settle(wait=idle)
            if idle:
                return self._no_timesteps()
        self._pool.settled = settled
        try:
            return super()._step(action, buffers)
        finally:
            self._pool.settled = None  # a replay waits for the environment that it steps

    def _no_timesteps(self) -> EnvBatch[TimestepBatch]:
        none = self._none_ended[:0]
        reward = np.zeros((0, *self._reward_shape), np.float32)
        timestep = TimestepBatch(self._storage.empty(0), reward, none, none, [], None)
        return EnvBatch(self._ids[:0], timestep)

    # ---- resets

    def _begin_next(
        self, env_ids: Sequence[int], ready: Tree, seeds: Sequence[int] | None = None
    ) -> list[DicoreError]:
        if self._cfg.reset_inplace:
            return self._begin_many(env_ids, ready, seeds)
        for env_id in env_ids:
            self._resets[env_id] = _Reset(self._seeds.next(env_id), 0, 0.0)
            self._episodes.stop(env_id, RESET)
        self._send_resets()
        return []

    def _begin_many(
        self, env_ids: Sequence[int], ready: Tree, seeds: Sequence[int] | None = None
    ) -> list[DicoreError]:
        for env_id in env_ids:
            self._resets.pop(env_id, None)
        return super()._begin_many(env_ids, ready, seeds)

    def _send_resets(self) -> float:
        """Begins the attempts that are due; returns the time of the next one."""
        now, following = time.monotonic(), inf
        for env_id, reset in self._resets.items():
            if reset.due is None:
                continue
            if reset.due > now:
                following = min(following, reset.due)
                continue
            self._pool.begin_reset(env_id, reset.seed, self._params[env_id])
            self._resets[env_id] = _Reset(reset.seed, reset.tries + 1, None)
        return following

    def _settle(self, *, wait: bool = False) -> int:
        """Begins the episodes of environments whose reset is done; returns their number.

        Args:
            wait: Wait until one has begun, or failed for good.
        """
        errors: list[DicoreError] = []
        begun = 0
        while self._resets:
            until = self._send_resets() if wait else 0.0
            found = self._pool.resets_done(until)
            for env_id, result in found.items():
                error = self._finish(env_id, self._resets[env_id], result)
                errors += [] if error is None else [error]
                begun += env_id not in self._resets
            if begun or not wait:
                break
        self._send_resets()
        self._raise_any(errors)
        return begun

    def _finish(self, env_id: int, reset: _Reset, result: Tree) -> DicoreError | None:
        """Begins an episode, or the next attempt; returns the error if it was the last one."""
        if isinstance(result, BaseException) and reset.tries < self._max_tries:
            self._before_retry(env_id, reset.seed, reset.tries, result)
            due = time.monotonic() + retry_wait(self._cfg.retry_waiting_time, reset.tries)
            self._resets[env_id] = _Reset(reset.seed, reset.tries, due)
            return None
        del self._resets[env_id]
        if isinstance(result, BaseException):
            self._episodes.stop(env_id, EnvState.ERROR)
            return reset_error(env_id, reset.seed, reset.tries, result)
        return self._begun(env_id, reset.seed, result, self._ready)

    # ---- state

    def state_dict(self) -> StateDict:
        """Returns the state as `BaseEnvManager` does; waits for resets that are in progress."""
        while self._resets:
            self._settle(wait=True)
        return super().state_dict()

    def close(self) -> None:
        """Closes all environments; harmless when repeated."""
        self._resets = {}
        super().close()
