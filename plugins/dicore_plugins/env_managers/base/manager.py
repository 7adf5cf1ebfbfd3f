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
        self._running = 0
        self._finished = [0] * self._num
        self._length = [0] * self._num
        self._return = [0.0] * self._num
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
            self._begin(env_id, ready, env_id)
        self._storage.check(tree_row(ready, list(chosen)), list(chosen))
        self._ready = ready

    def _begin(self, env_id: int, block: Any, row: int) -> None:
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
                    self._states[env_id] = EnvState.ERROR
                    raise EnvResetError(
                        f"env {env_id}: reset failed {attempt} times (seed {seed}):"
                        f" {type(error).__name__}: {error}",
                        context={"env_id": env_id, "seed": seed, "tries": attempt},
                    ) from error
                time.sleep(self._cfg.retry_waiting_time)
        self._storage.write(block, row, obs, env_id)
        self._episode_seed[env_id] = seed
        self._length[env_id] = 0
        self._return[env_id] = 0.0
        self._states[env_id] = EnvState.RUN

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
        run = EnvState.RUN
        for state in self._states:
            if state is not run:
                break
        else:
            return EnvBatch(self._ids, self._ready, self._position)
        rows = [i for i in self._id_list if self._states[i] is run]
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
        whole = ids is self._ids
        id_list = self._id_list if whole else ids.tolist()
        self._check_running(id_list)
        value = batch.value
        if value.__class__ is dict:
            value = _action_of(value)
        actions = self._check(value, id_list)
        count = len(id_list)
        block = self._room(count, recycle=recycle)
        steps = self._steps if whole else [self._steps[i] for i in id_list]
        write, lengths, limits = self._storage.write, self._length, self._limits
        rewards, terminated, truncated, infos, ended = [], [], [], [], []
        row = 0
        try:
            for env_id, step, act in zip(id_list, steps, actions, strict=True):
                obs, reward, term, trunc, info = step(act)
                write(block, row, obs, env_id)
                rewards.append(reward)
                lengths[env_id] = length = lengths[env_id] + 1
                if length >= limits[env_id] and not term:
                    trunc = True  # noqa: PLW2901 - the time limit that was peeled off
                terminated.append(term)
                truncated.append(trunc)
                infos.append(info)
                if term or trunc:
                    ended.append(row)
                row += 1
        except DicoreError:
            self._states[env_id] = EnvState.ERROR
            raise
        except Exception as error:
            raise self._step_error(id_list[row], actions, row, error) from error
        self._storage.check(block, id_list)
        reward = self._rewards(rewards, id_list)
        self._count_returns(id_list, reward)
        abnormal = self._abnormal(infos)
        timestep = TimestepBatch(
            block,
            reward,
            np.array(terminated, np.bool_),
            np.array(truncated, np.bool_),
            infos,
            abnormal,
        )
        self._ready = self._next_ready(block, id_list, ended, infos, whole=whole, recycle=recycle)
        return EnvBatch(ids, timestep, self._position if whole else None)

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
        ended: list[int],
        infos: list[dict[str, Any]],
        *,
        whole: bool,
        recycle: bool,
    ) -> Any:
        """Ends episodes, begins the next ones, and returns what is to be acted on."""
        if whole and not ended:
            return block
        if not whole:
            ready = tree_map(np.copy, self._ready)
            tree_map(lambda to, part: to.__setitem__(id_list, part), ready, block)
        elif recycle:
            ready = self._blocks[2 + self._turn]
            tree_map(np.copyto, ready, block)
        else:
            ready = tree_map(np.copy, block)
        begun = []
        for row in ended:
            env_id = id_list[row]
            infos[row] = self._end(env_id, infos[row])
            if self._states[env_id] is EnvState.RUN:
                self._begin(env_id, ready, env_id if not whole else row)
                begun.append(env_id)
        if begun:
            self._storage.check(tree_row(ready, begun), begun)
        return ready

    def _end(self, env_id: int, info: Mapping[str, Any]) -> dict[str, Any]:
        """Counts an episode; returns its last info with return and length of the whole of it."""
        self._finished[env_id] += 1
        if self._finished[env_id] >= self._cfg.episode_num:
            self._states[env_id] = EnvState.DONE
        elif not self._cfg.auto_reset:
            self._states[env_id] = EnvState.NEED_RESET
        return {
            **info,
            "eval_episode_return": self._return[env_id],
            "episode_length": self._length[env_id],
        }

    def _count_returns(self, id_list: list[int], reward: npt.NDArray[np.float32]) -> None:
        returns = self._return
        for env_id, value in zip(id_list, reward.tolist(), strict=True):
            returns[env_id] += value

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

    def _rewards(self, rewards: list[Any], id_list: list[int]) -> npt.NDArray[np.float32]:
        """Stores rewards as float32 [K]; shapes (1,), torch scalars and bools are welcome."""
        try:
            reward = np.array(rewards, np.float32)
            if reward.shape != (len(rewards),):
                reward = np.array([np.asarray(each).item() for each in rewards], np.float32)
        except (TypeError, ValueError) as error:
            wrong = next((i for i, r in enumerate(rewards) if not _is_number(r)), 0)
            self._states[id_list[wrong]] = EnvState.ERROR
            raise EnvStepError(
                f"env {id_list[wrong]}: reward {rewards[wrong]!r} is not a number",
                context={"env_id": id_list[wrong]},
            ) from error
        if not np.dot(reward, reward) < 3e38 and not np.isfinite(reward).all():
            row = int(np.flatnonzero(~np.isfinite(reward))[0])
            env_id = id_list[row]
            self._states[env_id] = EnvState.ERROR
            raise NonFiniteError(
                f"env {env_id}: reward {rewards[row]!r} at step {self._length[env_id]} of the"
                f" episode with seed {self._episode_seed[env_id]} is not finite",
                context={"env_id": env_id, "step": self._length[env_id]},
            )
        return reward

    def _abnormal(self, infos: list[dict[str, Any]]) -> npt.NDArray[np.bool_] | None:
        for info in infos:
            if info and info.get("abnormal"):
                return np.array([bool(each.get("abnormal")) for each in infos])
        return None

    def _step_error(
        self, env_id: int, actions: Iterable[Any], row: int, error: Exception
    ) -> EnvStepError:
        self._states[env_id] = EnvState.ERROR
        action = list(actions)[row]
        return EnvStepError(
            f"env {env_id}: step {self._length[env_id] + 1} of the episode with seed"
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


def _is_number(value: Any) -> bool:
    try:
        np.asarray(value).astype(np.float32).item()
    except (TypeError, ValueError):
        return False
    return value is not None


def _spoil(leaf: Any) -> Any:
    leaf.fill(np.nan if leaf.dtype.kind == "f" else np.iinfo(leaf.dtype).max)
    return leaf
