"""The in-process env manager: a plain loop over environments that writes into columns.

Shapes: N environments, K of them named, `...` one observation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dicore.config.coerce import as_config
from dicore.data import EnvBatch, TimestepBatch, tree_map, tree_row
from dicore.errors import (
    ActionError,
    ClosedError,
    DicoreError,
    EnvCreateError,
    EnvResetError,
    EnvStateError,
    EnvStepError,
    NonFiniteError,
    UsageError,
)
from dicore.interfaces.env_manager import EnvState
from dicore_plugins.env_managers.actions import checker_of
from dicore_plugins.env_managers.adapt import Adapted, adapt
from dicore_plugins.env_managers.base.config import BaseManagerConfig
from dicore_plugins.env_managers.observations import storage_of
from dicore_plugins.env_managers.seeds import EpisodeSeeds

IntArray = npt.NDArray[np.int64]
Resets = Sequence[int] | Mapping[int, Mapping[str, Any] | None] | None


class BaseEnvManager:
    """Steps N environments in the calling process; the contract is `IEnvManager`.

    Args:
        env_fn: One factory per environment; called at `launch` (one earlier, if spaces are asked).
        cfg: Options, as a section, a dict, or None for the defaults.

    Raises:
        UsageError: there is no factory.
    """

    config_class = BaseManagerConfig
    capabilities = frozenset({"reset_one", "episode_seed", "manual_reset"})
    method_name_list = ("reset", "step", "seed", "close", "render", "random_action")

    def __init__(
        self,
        env_fn: Sequence[Callable[[], Any]],
        cfg: BaseManagerConfig | Mapping[str, Any] | None = None,
    ) -> None:
        if not env_fn:
            raise UsageError("a manager needs at least one environment")
        self._cfg = as_config(cfg, BaseManagerConfig)
        self._env_fn = list(env_fn)
        self._num = len(self._env_fn)
        self._ids: IntArray = np.arange(self._num)
        self._id_list = self._ids.tolist()
        self._position = {env_id: env_id for env_id in self._id_list}
        self._none = np.zeros(self._num, np.bool_)
        self._none.setflags(write=False)
        self._adapted: list[Adapted | None] = [None] * self._num
        self._seeds = EpisodeSeeds(self._num)
        self._params: list[Mapping[str, Any]] = [{}] * self._num
        self._storage: Any = None
        self._check: Any = None
        self._replay_path: str | None = None
        self._clear()

    def _clear(self) -> None:
        self._closed = True
        self._states = [EnvState.VOID] * self._num
        self._all_run = False
        self._finished = [0] * self._num
        self._clock = 0
        self._deadline = float("inf")
        self._start = [0] * self._num
        self._return = np.zeros(self._num)
        self._episode_seed = [0] * self._num
        self._ready: Any = None
        self._blocks: list[Any] = []
        self._turn = 0

    # ---- what there is

    @property
    def env_num(self) -> int:
        """N."""
        return self._num

    @property
    def closed(self) -> bool:
        """Not launched yet, or closed."""
        return self._closed

    @property
    def done(self) -> bool:
        """Every environment has finished `episode_num` episodes."""
        return all(count >= self._cfg.episode_num for count in self._finished)

    @property
    def active_env(self) -> list[int]:
        """Ids of the environments that have not finished all their episodes."""
        return [i for i in self._id_list if self._states[i] is not EnvState.DONE]

    def env_state(self, env_id: int) -> EnvState:
        """Returns where one environment stands."""
        return self._states[env_id]

    @property
    def observation_space(self) -> Any:
        """Of one environment; makes at most one."""
        return self._env(0).env.observation_space

    @property
    def action_space(self) -> Any:
        """Of one environment; makes at most one."""
        return self._env(0).env.action_space

    @property
    def reward_space(self) -> Any:
        """Of one environment: a float32 scalar, unless it says otherwise."""
        from gymnasium.spaces import Box

        low, high = getattr(self._env(0).env, "reward_range", (-np.inf, np.inf))
        given = getattr(self._env(0).env, "reward_space", None)
        return Box(low, high, (), np.float32) if given is None else given

    @property
    def env_info(self) -> dict[str, Any]:
        """Number of environments and the three spaces."""
        return {
            "env_num": self._num,
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "reward_space": self.reward_space,
        }

    def env_attr(self, name: str) -> list[Any]:
        """Returns an attribute of every environment.

        Raises:
            AttributeError: an environment has no such attribute.
        """
        return [_attribute(self._env(env_id).env, name) for env_id in self._id_list]

    def env_call(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Calls a method of every environment, if it is in `method_name_list`.

        Raises:
            UsageError: the method is not in the list.
        """
        if name not in self.method_name_list:
            raise UsageError(
                f"'{name}' may not be called on environments",
                hint=f"one of {', '.join(self.method_name_list)}; attributes: env_attr",
            )
        return [getattr(self._env(i).env, name)(*args, **kwargs) for i in self._id_list]

    def random_action(self) -> EnvBatch[Any]:
        """Draws a legal action for each environment that waits for one."""
        from dicore.run.rng import stream
        from dicore_plugins.policies.random.policy import draw

        ready = self.ready_obs
        action = draw(self.action_space, len(ready), stream("env_manager/random_action"))
        return ready.with_value({"action": action})

    def enable_save_replay(self, replay_path: str | Sequence[str]) -> None:
        """Records episodes from now on, in environments that can; one folder or one each.

        Raises:
            UsageError: an environment cannot record.
        """
        paths = [replay_path] * self._num if isinstance(replay_path, str) else list(replay_path)
        for env_id, path in zip(self._id_list, paths, strict=True):
            env = self._env(env_id).env
            if not hasattr(env, "enable_save_replay"):
                raise UsageError(f"env {env_id} ({env}) has no enable_save_replay")
            env.enable_save_replay(path)

    def reward_shaping(self, env_id: int, transitions: Any) -> Any:
        """Lets an environment reshape the rewards of its episode; as they are if it does not."""
        env = self._env(env_id).env
        shape = getattr(env, "reward_shaping", None)
        return transitions if shape is None else shape(transitions)

    # ---- life

    def _env(self, env_id: int) -> Adapted:
        """Returns an environment, made on first need."""
        adapted = self._adapted[env_id]
        if adapted is None:
            try:
                adapted = adapt(self._env_fn[env_id]())
            except DicoreError:
                raise
            except Exception as error:
                raise EnvCreateError(
                    f"env {env_id} could not be made: {type(error).__name__}: {error}",
                    context={"env_id": env_id},
                ) from error
            self._adapted[env_id] = adapted
            self._states[env_id] = EnvState.INIT
        return adapted

    def launch(self, reset_param: Resets = None) -> None:
        """Makes all environments and begins an episode in each.

        Raises:
            EnvStateError: they are launched already.
            EnvCreateError: one could not be made.
            EnvResetError: one could not be reset.
        """
        if not self._closed:
            raise EnvStateError("the manager is launched already", hint="close() it first")
        for env_id in self._id_list:
            self._env(env_id)
        self._storage = storage_of(self.observation_space)
        self._check = checker_of(self.action_space)
        self._steps = [self._env(i).step for i in self._id_list]
        self._limits = [self._env(i).time_limit for i in self._id_list]
        self._blocks = [self._storage.empty(self._num) for _ in range(4)]
        self._ready = self._storage.empty(self._num)
        self._closed = False
        try:
            self.reset(reset_param)
        except BaseException:
            self.close()
            raise

    def seed(
        self,
        seed: int | Sequence[int] | Mapping[int, int],
        dynamic_seed: bool | None = None,
        *,
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
            EnvResetError: an environment failed more often than `max_retry` allows.
        """
        self._check_open("reset")
        if reset_param is None:
            chosen: Iterable[int] = self._id_list
            self._finished = [0] * self._num
        else:
            chosen = [int(env_id) for env_id in reset_param]
            if isinstance(reset_param, Mapping):
                for env_id, params in reset_param.items():
                    if params is not None:
                        self._params[int(env_id)] = dict(params)
        ready = tree_map(np.copy, self._ready)
        for env_id in chosen:
            self._begin(env_id, ready)
        self._storage.check(tree_row(ready, list(chosen)), list(chosen))
        self._find_deadline()
        self._all_run = all(state is EnvState.RUN for state in self._states)
        self._ready = ready

    def _begin(self, env_id: int, ready: Any) -> None:
        """Resets one environment and writes its first observation."""
        seed = self._seeds.next(env_id)
        self._states[env_id] = EnvState.RESET
        adapted = self._env(env_id)
        for attempt in range(1, self._cfg.max_retry + 1):
            try:
                obs, _ = adapted.reset(seed=seed, **self._params[env_id])
                break
            except Exception as error:
                if attempt == self._cfg.max_retry:
                    self._fail(env_id)
                    raise EnvResetError(
                        f"env {env_id}: reset failed {attempt} times (seed {seed}):"
                        f" {type(error).__name__}: {error}",
                        context={"env_id": env_id, "seed": seed, "tries": attempt},
                    ) from error
                time.sleep(self._cfg.retry_waiting_time)
        self._storage.write(ready, env_id, obs, env_id)
        self._episode_seed[env_id] = seed
        self._start[env_id] = self._clock
        self._return[env_id] = 0.0
        self._states[env_id] = EnvState.RUN

    def _fail(self, env_id: int) -> None:
        self._states[env_id] = EnvState.ERROR
        self._all_run = False

    def close(self) -> None:
        """Closes all environments; harmless when repeated."""
        adapted, self._adapted = self._adapted, [None] * self._num
        self._clear()
        for each in adapted:
            if each is not None and hasattr(each.env, "close"):
                each.env.close()

    def __enter__(self) -> BaseEnvManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- stepping

    @property
    def ready_obs(self) -> EnvBatch[Any]:
        """Observations [K, ...] of the environments that wait for an action, by env id.

        Raises:
            ClosedError: the manager is not launched.
        """
        if self._closed:
            self._check_open("ready_obs")
        if self._all_run:
            return EnvBatch(self._ids, self._ready, self._position)
        rows = [i for i in self._id_list if self._states[i] is EnvState.RUN]
        return EnvBatch(self._ids[rows], tree_row(self._ready, rows))

    @property
    def ready_imgs(self) -> dict[int, Any]:
        """Pictures of the environments that wait for an action, as they render them."""
        return {int(i): self._env(int(i)).env.render() for i in self.ready_obs.env_id}

    def step(self, action: Mapping[int, Any]) -> EnvBatch[Any]:
        """Acts in the environments named; what is returned is never written again.

        See `IEnvManager.step`; observations are the true last ones of episodes that end, and the
        first ones of the next episode are in `ready_obs`.
        """
        return self._step(action, recycle=False)

    def step_into(self, action: Mapping[int, Any]) -> EnvBatch[Any]:
        """Steps like `step` into recycled memory.

        Observations returned here and by `ready_obs` are valid until the next but one such call.
        """
        return self._step(action, recycle=True)

    def _step(self, action: Mapping[int, Any], *, recycle: bool) -> EnvBatch[Any]:
        batch = EnvBatch.of(action)
        ids = batch.env_id
        whole = ids is self._ids and self._all_run
        id_list, steps = self._id_list, self._steps
        if not whole:
            id_list = ids.tolist()
            self._check_running(id_list)
            steps = [steps[i] for i in id_list]
        value = batch.value
        actions = self._check(_action_of(value) if value.__class__ is dict else value, id_list)
        block = self._room(len(id_list), recycle=recycle)
        reward, infos, ended = self._step_each(steps, actions, block, id_list)
        self._tick(id_list, ended, whole=whole)
        self._storage.check(block, id_list)
        if not reward.dot(reward) < 3e38:
            self._check_rewards(reward, id_list)
        if whole:
            self._return += reward
        else:
            self._return[id_list] += reward
        abnormal = self._abnormal(infos) if any(infos) else None
        if whole and not ended:
            self._ready = block
            none = self._none
            return EnvBatch(
                ids, TimestepBatch(block, reward, none, none, infos, abnormal), self._position
            )
        terminated, truncated = np.zeros(len(reward), np.bool_), np.zeros(len(reward), np.bool_)
        for row, (term, trunc) in ended.items():
            terminated[row], truncated[row] = term, trunc
        self._ready = self._next_ready(block, id_list, ended, infos, recycle=recycle)
        return EnvBatch(
            ids,
            TimestepBatch(block, reward, terminated, truncated, infos, abnormal),
            self._position if whole else None,
        )

    def _step_each(
        self, steps: list[Any], actions: Iterable[Any], block: Any, id_list: list[int]
    ) -> tuple[npt.NDArray[np.float32], list[Any], dict[int, tuple[Any, Any]]]:
        """Steps one environment after the other; returns rewards, infos and the rows that ended.

        An observation is looked at in full when an episode begins; within it, one of the declared
        size goes by without a closer look.
        """
        write, size, count = self._storage.write, self._storage.nbytes, len(id_list)
        rewards = np.empty(count, np.float32)
        infos: list[Any] = []
        ended: dict[int, tuple[Any, Any]] = {}
        row = 0
        try:
            for row, step, act in zip(range(count), steps, actions):  # noqa: B905 - equally long
                obs, reward, term, trunc, info = step(act)
                try:
                    fits = obs.nbytes == size
                except AttributeError:
                    fits = False
                if fits:
                    block[row] = obs
                else:
                    write(block, row, obs, id_list[row])
                try:
                    rewards[row] = reward
                except (TypeError, ValueError, DeprecationWarning):
                    rewards[row] = self._number(reward, id_list[row])
                infos.append(info)
                if term or trunc:
                    ended[row] = (term, trunc)
        except DicoreError:
            self._fail(id_list[row])
            raise
        except Exception as error:
            raise self._step_error(id_list[row], actions, row, error) from error
        return rewards, infos, ended

    def _tick(
        self, id_list: list[int], ended: dict[int, tuple[Any, Any]], *, whole: bool
    ) -> None:
        """Counts the step and truncates episodes at the time limits that were peeled off."""
        self._clock += 1
        if not whole:
            stepped = set(id_list)
            for env_id in self._id_list:
                if env_id not in stepped:
                    self._start[env_id] += 1
            self._find_deadline()
        if self._clock < self._deadline:
            return
        self._find_deadline()
        for row, env_id in enumerate(id_list):
            if self.episode_length(env_id) >= self._limits[env_id]:
                term = ended.get(row, (False, False))[0]
                ended[row] = (term, not term)

    def _find_deadline(self) -> None:
        """Finds the first step from now at which an episode may meet its time limit.

        Episodes that begin later meet theirs later, so it stands until it is reached.
        """
        pairs = zip(self._start, self._limits, strict=True)
        self._deadline = min(max(start + limit, self._clock + 1) for start, limit in pairs)

    def episode_length(self, env_id: int) -> int:
        """Returns the steps made in the running episode of an environment."""
        return self._clock - self._start[env_id]

    def _room(self, count: int, *, recycle: bool) -> Any:
        if not recycle or count != self._num:
            return self._storage.empty(count)
        self._turn = 1 - self._turn
        if self._cfg.debug:
            for retired in (self._turn, 2 + self._turn):
                tree_map(_spoil, self._blocks[retired])
                self._blocks[retired] = self._storage.empty(self._num)
        return self._blocks[self._turn]

    def _next_ready(
        self,
        block: Any,
        id_list: list[int],
        ended: dict[int, tuple[Any, Any]],
        infos: list[Any],
        *,
        recycle: bool,
    ) -> Any:
        """Ends episodes, begins the next ones, and returns what is to be acted on."""
        if len(id_list) < self._num or id_list != self._id_list:
            ready = tree_map(np.copy, self._ready)
            tree_map(lambda to, part: to.__setitem__(id_list, part), ready, block)
        else:
            ready = self._blocks[2 + self._turn] if recycle else self._storage.empty(self._num)
            self._storage.copy(block, ready)
        for row in ended:
            env_id = id_list[row]
            infos[row] = self._end(env_id, infos[row])
            if self._states[env_id] is EnvState.RUN:
                self._begin(env_id, ready)
        self._storage.check(ready, self._id_list)
        return ready

    def _end(self, env_id: int, info: Mapping[str, Any]) -> dict[str, Any]:
        """Counts an episode; returns its last info with return and length of the whole of it."""
        self._finished[env_id] += 1
        if self._finished[env_id] >= self._cfg.episode_num:
            self._states[env_id] = EnvState.DONE
            self._all_run = False
        elif not self._cfg.auto_reset:
            self._states[env_id] = EnvState.NEED_RESET
            self._all_run = False
        return {
            **info,
            "eval_episode_return": float(self._return[env_id]),
            "episode_length": self.episode_length(env_id),
        }

    # ---- checks

    def _check_open(self, what: str) -> None:
        if self._closed:
            raise ClosedError(f"{what}: the manager is not launched", hint="launch() it first")

    def _check_running(self, id_list: list[int]) -> None:
        if self._closed:
            self._check_open("step")
        states, run = self._states, EnvState.RUN
        for env_id in id_list:
            if not 0 <= env_id < self._num or states[env_id] is not run:
                known = 0 <= env_id < self._num
                state = states[env_id].name if known else "unknown"
                raise EnvStateError(
                    f"env {env_id} is {state} and cannot be stepped",
                    hint="reset({env_id: None}) it first" if known else f"0..{self._num - 1}",
                    context={"env_id": env_id, "state": state},
                )

    def _number(self, reward: Any, env_id: int) -> float:
        """Reads a reward that numpy does not take as it is: shape (1,), a torch scalar, …

        Raises:
            EnvStepError: it is not one number.
        """
        try:
            return float(np.asarray(reward, np.float64).item())
        except (TypeError, ValueError) as error:
            raise EnvStepError(
                f"env {env_id}: reward {reward!r} is not a number", context={"env_id": env_id}
            ) from error

    def _check_rewards(self, reward: npt.NDArray[np.float32], id_list: list[int]) -> None:
        """Looks for NaN and infinity.

        Raises:
            NonFiniteError: there is one; the first is named.
        """
        if np.isfinite(reward).all():
            return
        row = int(np.flatnonzero(~np.isfinite(reward))[0])
        env_id = id_list[row]
        self._fail(env_id)
        raise NonFiniteError(
            f"env {env_id}: reward {reward[row]} at step {self.episode_length(env_id)} of the"
            f" episode with seed {self._episode_seed[env_id]} is not finite",
            context={"env_id": env_id, "step": self.episode_length(env_id)},
        )

    def _abnormal(self, infos: list[dict[str, Any]]) -> npt.NDArray[np.bool_] | None:
        flags = [bool(info.get("abnormal")) for info in infos]
        return np.array(flags) if any(flags) else None

    def _step_error(
        self, env_id: int, actions: Iterable[Any], row: int, error: Exception
    ) -> EnvStepError:
        self._fail(env_id)
        action = list(actions)[row]
        return EnvStepError(
            f"env {env_id}: step {self.episode_length(env_id) + 1} of the episode with seed"
            f" {self._episode_seed[env_id]} failed on action {action}:"
            f" {type(error).__name__}: {error}",
            hint="reset({env_id: None}) begins a new episode; the cause is chained",
            context={"env_id": env_id, "action": action, "seed": self._episode_seed[env_id]},
        )

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Returns seeds, counters and remembered reset parameters; not the envs' insides."""
        return {
            "seeds": self._seeds.state_dict(),
            "finished": list(self._finished),
            "params": [dict(params) for params in self._params],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned; episodes that were running begin anew."""
        self._seeds.load_state_dict(state["seeds"])
        self._params = [dict(params) for params in state["params"]]
        if not self._closed:
            self.reset()
        self._finished = list(state["finished"])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._num} envs, {'closed' if self._closed else 'open'})"


def _action_of(value: dict[str, Any]) -> Any:
    if "action" not in value:
        raise ActionError(f"no 'action' among {sorted(value)}", hint="{env_id: {'action': …}}")
    return value["action"]


def _attribute(env: Any, name: str) -> Any:
    get = getattr(env, "get_wrapper_attr", None)
    return getattr(env, name) if get is None else get(name)


def _spoil(leaf: Any) -> Any:
    leaf.fill(np.nan if leaf.dtype.kind == "f" else np.iinfo(leaf.dtype).max)
    return leaf
