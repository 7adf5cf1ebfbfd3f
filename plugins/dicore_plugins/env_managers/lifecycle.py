"""Launch, seeds, resets, close and saved state of an env manager.

Shapes: N environments.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dicore.config.compiler import as_config
from dicore.config.sections import ManagerConfig
from dicore.data import State, StateDict, Tree, tree_row
from dicore.errors import (
    ClosedError,
    DicoreError,
    EnvResetError,
    EnvSpaceError,
    EnvStateError,
    UsageError,
)
from dicore.interfaces.env import EnvSpec
from dicore.interfaces.env_manager import EnvState
from dicore_plugins.env_managers.actions import ActionLog, NestedActions, action_check_of, ids_of
from dicore_plugins.env_managers.env_pool import EnvPool
from dicore_plugins.env_managers.episodes import (
    Episodes,
    EpisodeSeeds,
    resized,
    running_episode,
    shape_of,
)
from dicore_plugins.env_managers.faults import all_of, reset_error, retry_wait, warn_no_effect
from dicore_plugins.env_managers.observations import (
    BoundsWarning,
    ObsBuffers,
    obs_buffers_of,
    storage_of,
)

if TYPE_CHECKING:
    from dicore.interfaces.env import Env, Space

__all__ = ["ManagedEnvs"]

_LOG = logging.getLogger("dicore.env")
_BOUNDS_CHECKS = 100
"""Steps after a launch in which observations are compared with the bounds of their space."""

Seeds = int | Sequence[int] | Mapping[int, int]
Resets = Sequence[int] | Mapping[int, Mapping[str, object] | None] | None


class ManagedEnvs:
    """N environments and their episodes; `BaseEnvManager` steps them.

    Args:
        env_fn: One factory per environment.
        cfg: Options, as a section, a dict, or None for the defaults.
    """

    config_class: ClassVar[type[ManagerConfig]]
    pool_class: ClassVar[type[EnvPool]] = EnvPool
    """Creates, resets and steps the environments; see `EnvPool`."""
    capabilities = frozenset({"lockstep", "step_one", "reset_one", "episode_seed", "manual_reset"})
    method_name_list: tuple[str, ...] = (
        "render", "random_action", "reward_shaping", "enable_save_replay", "enable_save_figure",
        "get_state", "set_state", "compute_reward", "compute_terminated",
    )  # fmt: skip
    """Methods that `env_call` may call: those that do not change the manager's episode state."""
    brought_back: bool | None = None
    """Whether the last loaded state restored every running episode; None: none was loaded."""

    def __init__(
        self,
        env_fn: Sequence[Callable[[], Env]],
        cfg: ManagerConfig | Mapping[str, object] | None = None,
    ) -> None:
        self._closed = True
        self._cfg: Any = as_config(cfg, self.config_class)
        self._pool = self.pool_class(env_fn, self._cfg)
        for name in ("reset_timeout", "step_timeout"):
            given = self._cfg[name] is not None  # asked first: capabilities may take a launch
            if given and not self.capabilities & {"deadlines", "workers"}:
                warn_no_effect(name)
        self._id_list = self._pool.ids
        self._pending: dict[int, Tree] = {}
        self._reward_shape: tuple[int, ...] = ()
        self._seeds = EpisodeSeeds(self.env_num)
        params: list[dict[str, object]] = [{} for _ in self._id_list]
        self._params, peek = params, self._seeds.peek
        self._pool.next_reset = lambda env_id: (peek(env_id), params[env_id])  # no cycle with self
        self._episodes = self._new_episodes([float("inf")] * self.env_num)
        self._obs_buffers: ObsBuffers | None = None
        self._action_log: ActionLog | None = None
        self._bounds = BoundsWarning()
        self._loaded_layers: Sequence[Sequence[Any]] | None = None
        self._loaded_counts: tuple[list[int], list[int]] | None = None
        self._loaded_running: Sequence[Mapping[str, Any]] | None = None

    def _new_episodes(self, limits: Sequence[float]) -> Episodes:
        auto_reset, shape = self._cfg.auto_reset, self._reward_shape
        return Episodes(limits, self._cfg.episode_num, auto_reset=auto_reset, reward_shape=shape)

    @property
    def env_num(self) -> int:
        """N."""
        return len(self._pool)

    def worker_pids(self) -> dict[int, int]:
        """Returns the process ids of workers by env id."""
        return self._pool.worker_pids()

    @property
    def observation_space(self) -> Space:
        """Of one environment; makes at most one."""
        return self._pool.space("observation_space", "obs_space")

    @property
    def action_space(self) -> Space:
        """Of one environment; makes at most one."""
        return self._pool.space("action_space", "act_space")

    @property
    def spec(self) -> EnvSpec:
        """What is known of one environment."""
        agents, state = (), None
        with contextlib.suppress(AttributeError):
            agents = tuple(self._pool.attribute(0, "agent_ids"))
        with contextlib.suppress(EnvSpaceError):
            state = self._pool.space("state_space", "state_space")
        spaces = self.observation_space, self.action_space, self.reward_space
        return EnvSpec(*spaces, state, agents)

    @property
    def reward_space(self) -> Space | None:
        """Of one environment: a float32 scalar unless the environment declares another."""
        with contextlib.suppress(EnvSpaceError):
            return self._pool.space("reward_space", "rew_space")
        from gymnasium.spaces import Box

        low, high = -np.inf, np.inf
        with contextlib.suppress(AttributeError, TypeError, ValueError):  # some set it to None
            low, high = map(float, self._pool.attribute(0, "reward_range"))
        return Box(low, high, (), np.float32)

    @property
    def closed(self) -> bool:
        """Not launched yet, or closed."""
        return self._closed

    @property
    def done(self) -> bool:
        """Every environment has finished `episode_num` episodes."""
        return self._episodes.done

    @property
    def active_env(self) -> list[int]:
        """Ids of the environments that are launched and have not finished all their episodes."""
        if self._closed:
            return []
        return [i for i in self._id_list if self._episodes.state[i] is not EnvState.DONE]

    # ---- launch, reset, close

    def launch(self, reset_param: Resets = None) -> None:
        """Makes all environments and begins an episode in each.

        Raises:
            EnvStateError: the manager is already launched.
            EnvCreateError: an environment could not be made, or two are the same object.
            EnvResetError: an environment could not be reset.
        """
        if not self._closed:
            raise EnvStateError("the manager is already launched", hint="call close() first")
        try:
            limits = self._pool.launch()
            self._storage = storage_of(self.observation_space)
            space = self.action_space
            self._obs_buffers = obs_buffers_of(self._storage, self.env_num, debug=self._cfg.debug)
            self._check = check = action_check_of(space, clip=self._cfg.clip_actions)
            self._nested = isinstance(check, NestedActions)
            self._legal: frozenset[int] = getattr(check, "legal", frozenset())
            self._action_log = ActionLog(self.env_num) if self._cfg.record_actions else None
            self._reward_shape = shape_of(self.reward_space)
            self._episodes = self._new_episodes(limits)
            self._ready = self._storage.empty(self.env_num)
            self._bounds_checks = _BOUNDS_CHECKS
            self._closed = False
            if isinstance(reset_param, Mapping):
                self._remember(reset_param)
            self._resume()
        except BaseException:
            self.close()
            raise

    def seed(self, seed: Seeds, dynamic_seed: bool | None = None, role: str = "collector") -> None:
        """Seeds the next episodes; see `IEnvManager.seed`."""
        dynamic = self._cfg.dynamic_seed or role != "collector"
        dynamic = dynamic if dynamic_seed is None else dynamic_seed
        self._seeds.set(seed, dynamic, role)

    def restart_episodes(self) -> None:
        """Restarts the sequence of episode seeds; takes effect at the next resets."""
        self._seeds.rewind()

    def reset(self, reset_param: Resets = None) -> None:
        """Begins new episodes; see `IEnvManager.reset`.

        Raises:
            ClosedError: the manager is not launched.
            EnvStateError: there is no environment with that id.
            EnvResetError: an environment failed more often than `max_retry` allows; the manager
                is closed.
        """
        self._check_open("reset")
        if reset_param is None:
            chosen = self._id_list
        else:
            chosen = ids_of(reset_param)
            if isinstance(reset_param, Mapping):
                self._remember(reset_param)
        ready = self._storage.copy(self._ready)
        self._episodes.reopen(chosen)
        errors = self._begin_many(chosen, ready)
        self._ready = ready
        self._raise_any(errors)
        self._bounds.check(self._storage, tree_row(ready, chosen))

    def close(self) -> None:
        """Closes all environments; harmless when repeated. Logs how many actions were clipped."""
        clipped = 0 if self._closed else getattr(self._check, "clipped", 0)
        if clipped:
            _LOG.warning("%d actions were outside of the action space and were clipped", clipped)
        self._closed = True
        self._pending.clear()
        self._pool.close()
        self._episodes = self._new_episodes([float("inf")] * self.env_num)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._pool.is_garbage = True
            self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.env_num} envs, {'closed' if self._closed else 'open'})"

    def _check_open(self, what: str) -> None:
        if self._closed:
            raise ClosedError(f"{what}: the manager is not launched", hint="call launch() first")

    def _remember(self, params: Mapping[int, Mapping[str, object] | None]) -> None:
        for env_id, each in params.items():
            self._episodes.check_known(int(env_id))
            if each is not None:
                self._params[int(env_id)] = dict(each)

    def _begin_many(
        self, env_ids: Sequence[int], ready: Tree, seeds: Sequence[int] | None = None
    ) -> list[DicoreError]:
        """Begins episodes, see `BaseEnvManager`."""
        raise NotImplementedError

    def _raise_any(self, errors: Sequence[DicoreError]) -> None:
        """Raises errors of environments; closes the manager if one could not be reset."""
        if not errors:
            return
        if any(isinstance(error, EnvResetError) for error in errors):
            self.close()
        raise all_of(errors)

    # ---- attributes and methods of the environments

    @property
    def env_info(self) -> dict[str, object]:
        """Number of environments and the three spaces."""
        return {
            "env_num": self.env_num,
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "reward_space": self.reward_space,
        }

    def env_attr(self, name: str) -> list[Any]:
        """Returns an attribute of every environment.

        Raises:
            AttributeError: an environment has no such attribute.
        """
        return [self._pool.attribute(env_id, name) for env_id in self._id_list]

    def env_call(self, name: str, *args: object, ids: Any = None, **kwargs: object) -> list[Any]:
        """Calls a method of every environment, or of those in `ids`.

        Raises:
            UsageError: the method is not in the list.
            AttributeError: an environment has no such method.
        """
        if name not in self.method_name_list:
            raise UsageError(
                f"'{name}' may not be called on environments",
                hint=f"one of {', '.join(self.method_name_list)}; attributes: env_attr",
            )
        chosen = self._id_list if ids is None else ids
        return [self._pool.call(env_id, name, *args, **kwargs) for env_id in chosen]

    def enable_save_replay(
        self, replay_path: str | PathLike[str] | Sequence[str | PathLike[str]]
    ) -> None:
        """Records episodes from now on, in environments that can; one folder, or one per env.

        Raises:
            UsageError: an environment cannot record, or the number of folders differs.
        """
        if isinstance(replay_path, str | PathLike):
            paths: list[Any] = [replay_path] * self.env_num
        else:
            paths = [*replay_path]
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

    def _record(self, env_id: int, name: str, path: object) -> None:
        if not self._pool.has(env_id, name):
            raise UsageError(f"env {env_id} has no {name}", hint="render_mode='rgb_array' adds it")
        self._pool.call(env_id, name, path)

    def reward_shaping(self, env_id: int, transitions: Tree) -> object:
        """Calls the environment's `reward_shaping`; without one, returns `transitions` as is."""
        if not self._pool.has(env_id, "reward_shaping"):
            return transitions
        return self._pool.call(env_id, "reward_shaping", transitions)

    def _retry(self, env_id: int, seed: int, error: BaseException) -> object:
        """Resets an environment again after a failed reset; returns the result, or an error."""
        for attempt in range(1, self._cfg.max_retry):
            self._before_retry(env_id, seed, attempt, error)
            time.sleep(retry_wait(self._cfg.retry_waiting_time, attempt))
            (result,) = self._pool.reset([env_id], [seed], [self._params[env_id]])
            if not isinstance(result, BaseException):
                return result
            error = result
        return reset_error(env_id, seed, self._cfg.max_retry, error)

    def _before_retry(self, env_id: int, seed: int, tries: int, error: BaseException) -> None:
        failed = reset_error(env_id, seed, tries, error)
        _LOG.warning("%s; try %d", failed.message, tries + 1)
        if self._cfg.retry_type == "renew":
            self._pool.discard(env_id)

    # ---- state

    def state_dict(self) -> StateDict:
        """Returns seeds, counters, remembered reset parameters and the running episodes.

        With `record_actions`, `running` holds for each running episode its seed, the actions since
        its reset (None if there were too many), its return so far and the observation that waits
        for an action, so that a deterministic environment can be replayed to the same step;
        without, it is None. `state` is that of an environment with `get_state` and `set_state`,
        instead of actions. `layers` is the state of each environment's stateful layers.
        """
        running, layers = self._loaded_running, self._loaded_layers
        if not self._closed:
            if self._pool.has_layers():
                layers = [self._pool.layer_states(i) for i in self._id_list]
            if (log := self._action_log) is not None:
                seen = [tree_row(self._ready, i) for i in self._id_list]
                running = [
                    running_episode(i, obs, self._episodes, self._pool, log)
                    for i, obs in enumerate(seen)
                ]
        episodes = self._episodes
        finished, restarts = self._loaded_counts or (episodes.finished, episodes.restarts)
        return {
            "seeds": self._seeds.state_dict(),
            "finished": list(finished),
            "restarts": list(restarts),
            "params": [dict(params) for params in self._params],
            "running": running,
            **({} if layers is None else {"layers": layers}),
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned, now or at the launch; running episodes continue.

        An episode that cannot be replayed (its actions are not known, or the environment is not
        deterministic) starts again, with a warning; see `brought_back`. All episodes start again if
        the number of environments is another.
        """
        state = resized(state, self.env_num)
        self._seeds.load_state_dict(state["seeds"])
        self._params[:] = [dict(params) for params in state["params"]]
        self._loaded_counts = list(state["finished"]), list(state["restarts"])
        self.brought_back, self._loaded_running = False, state["running"]
        self._loaded_layers = state.get("layers")
        if not self._closed:
            self._resume()

    def _resume(self) -> None:
        """Replays the running episodes of a loaded state; without one, begins new episodes."""
        running, self._loaded_running = self._loaded_running, None
        layers, self._loaded_layers = self._loaded_layers, None
        self._pool.load_layers(layers or ())
        if running is None:
            self.reset()
        else:
            ready = self._storage.copy(self._ready)
            replayed = [self._replay(i, each, ready) for i, each in enumerate(running)]
            self.brought_back = all(replayed)
            self._ready = ready
        if self._loaded_counts is not None:
            self._episodes.finished, self._episodes.restarts = self._loaded_counts
            self._loaded_counts = None

    def _begin_one(self, env_id: int, ready: Tree, seed: int | None = None) -> None:
        self._raise_any(self._begin_many([env_id], ready, None if seed is None else [seed]))

    def _replay(self, env_id: int, episode: Mapping[str, Any], ready: Tree) -> bool:
        """Repeats the actions of an episode; returns whether the last observation is the same."""
        from dicore_plugins.env_managers.replay import repeated, same

        pool, storage = self._pool, self._storage
        actions, state = episode["actions"], episode.get("state")
        if actions is None and state is None:
            self._begin_one(env_id, ready)
            return False
        before = pool.layer_states(env_id)
        pool.load_layer_states(env_id, episode.get("layers", before))
        self._begin_one(env_id, ready, int(episode["seed"]))
        if state is not None:
            back = pool.load_state(env_id, state)
            pool.load_layer_states(env_id, before)
            storage.write(ready, env_id, episode["obs"])
        else:
            back = repeated(pool, storage, env_id, actions, ready)
        if not back or not same(tree_row(ready, env_id), episode["obs"]):
            _LOG.warning("env %d does not repeat its episode; it begins a new one", env_id)
            pool.load_layer_states(env_id, before)
            self._begin_one(env_id, ready)
            return False
        length = len(actions) if state is None else int(episode["length"])
        self._episodes.resume(env_id, length, episode["return"])
        if self._action_log is not None and actions is not None:
            for action in actions:
                self._action_log.add([env_id], [action])
        return True
