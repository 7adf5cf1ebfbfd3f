"""The life of the in-process manager: launch, seeds, resets, close, and what is kept of it.

Shapes: N environments.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import optree

from dicore.config.coerce import as_config
from dicore.data import tree_row
from dicore.errors import (
    ClosedError,
    DicoreError,
    EnvCreateError,
    EnvResetError,
    EnvStateError,
)
from dicore.interfaces.env_manager import EnvState
from dicore_plugins.env_managers.actions import NestedActions, action_check_of
from dicore_plugins.env_managers.adapt import Adapted
from dicore_plugins.env_managers.base.action_log import Journal
from dicore_plugins.env_managers.base.config import BaseManagerConfig
from dicore_plugins.env_managers.base.episodes import RESET, RUN, Episodes
from dicore_plugins.env_managers.base.obs_buffers import Memory, memory_of
from dicore_plugins.env_managers.env_pool import Fleet
from dicore_plugins.env_managers.faults import all_of, data_error, reset_error
from dicore_plugins.env_managers.layers import Layers
from dicore_plugins.env_managers.observations import storage_of
from dicore_plugins.env_managers.seeds import EpisodeSeeds

__all__ = ["ManagedFleet"]

_LOG = logging.getLogger("dicore.env")
_SCALE = 1e-19
"""Sums of float32 rewards, each multiplied by this, cannot overflow."""
_INSPECTED = 100
"""Steps after a launch in which observations are compared with the bounds of their space."""

Resets = Sequence[int] | Mapping[int, Mapping[str, Any] | None] | None


@cache
def say_no_effect(name: str) -> None:
    """Warns of a limit that this manager cannot keep; once per process, for all its managers."""
    _LOG.warning(
        "env.manager.%s has no effect: environments run in this process, which cannot cut its own"
        " call short; choose a manager with processes (dicore list env_manager)",
        name,
    )


class ManagedFleet(Fleet):
    """Environments of one process with their episodes; see `BaseEnvManager`.

    Args:
        env_fn: One factory per environment.
        cfg: Options, as a section, a dict, or None for the defaults.
    """

    config_class = BaseManagerConfig
    capabilities = frozenset({"reset_one", "episode_seed", "manual_reset"})

    def __init__(
        self,
        env_fn: Sequence[Callable[[], Any]],
        cfg: BaseManagerConfig | Mapping[str, Any] | None = None,
    ) -> None:
        self._closed = True
        super().__init__(env_fn)
        self._cfg = as_config(cfg, BaseManagerConfig)
        for name in ("reset_timeout", "step_timeout"):
            if self._cfg[name] is not None:
                say_no_effect(name)
        self._id_list = list(range(self.env_num))
        self._ids: npt.NDArray[np.int64] = np.arange(self.env_num)
        self._position = {env_id: env_id for env_id in self._id_list}
        self._none_ended = np.zeros(self.env_num, np.bool_)
        self._none_ended.setflags(write=False)
        self._scale = np.full(self.env_num, _SCALE, np.float32)
        self._seeds = EpisodeSeeds(self.env_num)
        self._params: list[dict[str, Any]] = [{} for _ in self._id_list]
        self._books = self._new_books([float("inf")] * self.env_num)
        self._memory: Memory | None = None
        self._journal: Journal | None = None
        self._layers = Layers()
        self._known: Sequence[Sequence[Any]] | None = None
        self._counts: tuple[list[int], list[int]] | None = None
        self._running: Sequence[Mapping[str, Any]] | None = None
        self._warned: set[str] = set()

    def _new_books(self, limits: Sequence[float]) -> Episodes:
        return Episodes(limits, self._cfg.episode_num, auto_reset=self._cfg.auto_reset)

    # ---- what there is

    @property
    def closed(self) -> bool:
        """Not launched yet, or closed."""
        return self._closed

    @property
    def done(self) -> bool:
        """Every environment has finished `episode_num` episodes."""
        return self._books.done

    @property
    def active_env(self) -> list[int]:
        """Ids of the environments that are launched and have not finished all their episodes."""
        if self._closed:
            return []
        return [i for i in self._id_list if self._books.state[i] is not EnvState.DONE]

    def env_state(self, env_id: int) -> EnvState:
        """Returns where one environment stands."""
        if self._closed:
            return EnvState.VOID if self._envs[env_id] is None else EnvState.INIT
        return self._books.state[env_id]

    # ---- life

    def launch(self, reset_param: Resets = None) -> None:
        """Makes all environments and begins an episode in each.

        Raises:
            EnvStateError: they are launched already.
            EnvCreateError: one could not be made, or two are the same object.
            EnvResetError: one could not be reset.
        """
        if not self._closed:
            raise EnvStateError("the manager is launched already", hint="close() it first")
        try:
            envs = [self._env(env_id) for env_id in self._id_list]
            self._check_distinct(envs)
            self._storage = storage_of(self.observation_space)
            self._memory = memory_of(self._storage, self.env_num, debug=self._cfg.debug)
            check = action_check_of(self.action_space)
            self._nested = isinstance(check, NestedActions)
            self._check = check
            self._legal: frozenset[int] = getattr(check, "legal", frozenset())
            self._journal = Journal(self.env_num) if self._cfg.record_actions else None
            self._layers = Layers(env.env for env in envs)
            self._steps = [env.step for env in envs]
            self._books = self._new_books([env.time_limit for env in envs])
            self._ready = self._storage.empty(self.env_num)
            self._inspect = _INSPECTED
            self._closed = False
            if isinstance(reset_param, Mapping):
                self._remember(reset_param)
            self._go_on()
        except BaseException:
            self.close()
            raise

    def _check_distinct(self, envs: Sequence[Adapted]) -> None:
        first: dict[int, int] = {}
        for env_id, made in enumerate(envs):
            other = first.setdefault(id(made.core), env_id)
            if other != env_id:
                raise EnvCreateError(
                    f"env {env_id} is the very object that env {other} is",
                    hint="each factory must make an environment of its own",
                    context={"env_id": env_id},
                )

    def seed(
        self,
        seed: int | Sequence[int] | Mapping[int, int],
        dynamic_seed: bool | None = None,
        role: str = "collector",
    ) -> None:
        """Seeds the episodes to come; see `IEnvManager.seed`."""
        self._seeds.set(seed, dynamic_seed, role)

    def restart_episodes(self) -> None:
        """Begins the sequence of episode seeds again; takes effect at the next resets."""
        self._seeds.rewind()

    def reset(self, reset_param: Resets = None) -> None:
        """Begins new episodes; see `IEnvManager.reset`.

        Raises:
            ClosedError: the manager is not launched.
            EnvStateError: there is no environment of that id.
            EnvResetError: an environment failed more often than `max_retry` allows; the others
                named have begun.
        """
        self._check_open("reset")
        if reset_param is None:
            chosen = self._id_list
        else:
            chosen = [int(env_id) for env_id in reset_param]
            if isinstance(reset_param, Mapping):
                self._remember(reset_param)
        ready = self._storage.copy(self._ready)
        self._books.reopen(chosen)
        errors: list[DicoreError] = []
        for env_id in chosen:
            try:
                self._begin(env_id, ready)
            except DicoreError as error:
                errors.append(error)
        self._ready = ready
        if errors:
            raise all_of(errors)
        self._compare(tree_row(ready, chosen))

    def close(self) -> None:
        """Closes all environments; harmless when repeated. Tells how many actions were clipped."""
        clipped = 0 if self._closed else getattr(self._check, "clipped", 0)
        if clipped:
            _LOG.warning("%d actions lay outside of the action space and were clipped", clipped)
        self._closed = True
        for env_id in self._id_list:
            self._discard(env_id)
        self._books = self._new_books([float("inf")] * self.env_num)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def _check_open(self, what: str) -> None:
        if self._closed:
            raise ClosedError(f"{what}: the manager is not launched", hint="launch() it first")

    def _remember(self, params: Mapping[int, Mapping[str, Any] | None]) -> None:
        for env_id, each in params.items():
            self._books.check_known(int(env_id))
            if each is not None:
                self._params[int(env_id)] = dict(each)

    def _begin(self, env_id: int, ready: Any, seed: int | None = None) -> None:
        """Begins an episode and writes its first observation; None: with the next seed.

        Raises:
            EnvResetError: the environment failed every time, or returned something else.
            EnvSpaceError: the observation does not fit its space.
            NonFiniteError: there is NaN or infinity in it.
        """
        books, storage = self._books, self._storage
        seed = self._seeds.next(env_id) if seed is None else seed
        params = self._params[env_id]
        books.state[env_id] = RESET
        if self._layers:
            self._layers.begin(env_id)
        try:
            env = self._envs[env_id] or self._renewed(env_id)
            result = env.reset(seed=seed, **params) if params else env.reset(seed=seed)
        except Exception as error:
            result = self._try_again(env_id, seed, error)
        if result.__class__ is not tuple or len(result) != 2:
            books.stop(env_id, EnvState.ERROR)
            raise EnvResetError(
                f"env {env_id}: reset returned {type(result).__name__}",
                hint="reset(seed=…) returns observation and info (gymnasium's API)",
                context={"env_id": env_id, "seed": seed},
            )
        if not storage.place(ready, env_id, result[0]):
            fault = storage.fault(result[0])
            if fault is not None:
                books.stop(env_id, EnvState.ERROR)
                raise data_error(env_id, f"the reset with seed {seed}", seed, fault)
            storage.write(ready, env_id, result[0])
        books.begin(env_id, seed)
        if self._journal is not None:
            self._journal.begin(env_id)

    def _try_again(self, env_id: int, seed: int, error: Exception) -> Any:
        """Resets an environment whose reset has failed, as often as it may; returns its result.

        Raises:
            EnvResetError: it failed every time.
        """
        for attempt in range(1, self._cfg.max_retry):
            failed = reset_error(env_id, seed, attempt, error)
            _LOG.warning("%s; try %d", failed.message, attempt + 1)
            time.sleep(self._cfg.retry_waiting_time)
            if self._cfg.retry_type == "renew":
                self._discard(env_id)
            try:
                env = self._envs[env_id] or self._renewed(env_id)
                return env.reset(seed=seed, **self._params[env_id])
            except Exception as again:
                error = again
        self._books.stop(env_id, EnvState.ERROR)
        raise reset_error(env_id, seed, self._cfg.max_retry, error) from error

    def _renewed(self, env_id: int) -> Adapted:
        """Makes an environment again after it was discarded.

        Raises:
            EnvCreateError: making it failed.
        """
        made = self._env(env_id)
        self._steps[env_id] = made.step
        self._layers.replace(env_id, made.env)
        return made

    def _compare(self, block: Any) -> None:
        """Warns, once for each part of the observation, of values outside of the space."""
        for path, text in self._storage.outside(block).items():
            if path not in self._warned:
                self._warned.add(path)
                _LOG.warning("%s", text)

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Returns seeds, counters, remembered reset parameters, and what runs.

        With `record_actions`, `running` tells of each running episode its seed, the actions since
        its reset (None where there were too many), its return so far and the observation that waits
        for an action, by which a deterministic environment can be brought back to where it is;
        without, it is None. `layers` is what the layers of each environment know that remember more
        than an episode.
        """
        journal, running, known = self._journal, self._running, self._known
        layers = self._layers
        if layers and not self._closed:
            known = [layers.now(i) for i in self._id_list]
        if journal is not None and not self._closed:
            running = [
                {
                    "seed": self._books.seed[i],
                    "actions": journal.actions(i) if self._books.state[i] is RUN else None,
                    "return": float(self._books.total[i]),
                    "obs": tree_row(self._ready, i),
                    **({"layers": layers.begun(i)} if layers else {}),
                }
                for i in self._id_list
            ]
        waiting = self._counts  # a state that was loaded before the launch
        finished, restarts = waiting or (self._books.finished, self._books.restarts)
        return {
            "seeds": self._seeds.state_dict(),
            "finished": list(finished),
            "restarts": list(restarts),
            "params": [dict(params) for params in self._params],
            "running": running,
            **({} if known is None else {"layers": known}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, now or at the launch; running episodes go on.

        An episode that cannot be brought back (its actions are not known, or the environment does
        not do the same again) begins anew, with a warning; `brought_back` tells.
        """
        self._seeds.load_state_dict(state["seeds"])
        self._params = [dict(params) for params in state["params"]]
        self._counts = list(state["finished"]), list(state["restarts"])
        self.brought_back, self._running = False, state["running"]
        self._known = state.get("layers")
        if not self._closed:
            self._go_on()

    def _go_on(self) -> None:
        """Brings back what ran when the state was taken that was loaded; else begins anew."""
        running, self._running = self._running, None
        known, self._known = self._known, None
        for env_id, states in enumerate(known or ()):
            self._layers.load(env_id, states)
        if running is None:
            self.reset()
        else:
            ready = self._storage.copy(self._ready)
            back = [self._bring_back(i, each, ready) for i, each in enumerate(running)]
            self.brought_back = all(back)
            self._ready = ready
        if self._counts is not None:
            (self._books.finished, self._books.restarts), self._counts = self._counts, None

    def _bring_back(self, env_id: int, episode: Mapping[str, Any], ready: Any) -> bool:
        """Plays an episode again up to where it was; says whether that worked."""
        actions = episode["actions"]
        if actions is None:
            self._begin(env_id, ready)
            return False
        known = self._layers.now(env_id)
        self._layers.load(env_id, episode.get("layers", known))
        self._begin(env_id, ready, int(episode["seed"]))
        step, obs, over = self._steps[env_id], None, False
        try:
            for action in actions:
                obs, _, terminated, truncated, _ = step(action)
                over = bool(terminated or truncated)
        except Exception as error:
            _LOG.warning("env %d: its running episode cannot be replayed: %s", env_id, error)
            over = True
        if not over and len(actions) and not self._storage.place(ready, env_id, obs):
            self._storage.write(ready, env_id, obs)
        if over or not _same(tree_row(ready, env_id), episode["obs"]):
            _LOG.warning("env %d does not repeat its episode; it begins a new one", env_id)
            self._layers.load(env_id, known)
            self._begin(env_id, ready)
            return False
        self._books.resume(env_id, len(actions), float(episode["return"]))
        if self._journal is not None:
            for action in actions:
                self._journal.add([env_id], [action])
        return True

    brought_back: bool | None = None
    """Whether the last state loaded brought every running episode back; None: none was loaded."""

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"{type(self).__name__}({self.env_num} envs, {state})"


def _same(obs: Any, other: Any) -> bool:
    ours, theirs = optree.tree_leaves(obs), optree.tree_leaves(other)
    return len(ours) == len(theirs) and all(map(np.array_equal, ours, theirs))
