"""The environments of one process: created, reset, stepped, closed and asked for attributes."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dicore.errors import DicoreError, EnvCreateError, EnvSpaceError, EnvStateError, UsageError
from dicore.values import Info, State, Tree
from dicore_plugins.env_managers.adapt import Adapted, StatefulLayers, adapt, innermost
from dicore_plugins.env_managers.faults import described
from dicore_plugins.env_managers.observations import has_old_info

if TYPE_CHECKING:
    from dicore.interfaces.env import Env, Space

__all__ = ["EnvPool", "Results", "advice", "close_all", "interrupted"]

_LOG = logging.getLogger("dicore.env")
CLOSE_S = 5.0
"""Seconds in which all environments are closed."""
_GARBAGE_S = 0.1

Results = tuple[
    list[int], Any, Any, list[Any], dict[int, tuple[Any, Any]], dict[int, BaseException]
]
"""Timesteps of K environments: env ids; observations; rewards; infos; (terminated, truncated) of
the rows whose episode ended; the exceptions of the rows whose step failed. Observations are a list,
or stacked [K, ...] in the dtype of the space (float64: float32) and not overwritten before the next
step but one; rewards are a list or an array."""
NextReset = Callable[[int], tuple[int, Mapping[str, object]]]


class EnvPool:
    """The environments of a manager, in the calling process.

    It only creates, resets, steps and closes them. Seeds, checks, retries, restart budgets, episode
    ends and replay are the manager's. For environments that live elsewhere, derive from this class,
    override its public methods, and set `pool_class` of a manager to it.

    Args:
        env_fn: One factory per environment.
        cfg: The manager's options.
        ids: Env ids of the factories, for a pool of a part of the environments; None: 0 to N - 1.

    Attributes:
        ids: All env ids. If `step` is given this very list, all environments are stepped.
        envs: The environments by id, None where one is not made.
        next_reset: Returns the seed and the arguments of an environment's next reset, without
            counting an episode; set by the manager.
        is_garbage: The manager is being collected, maybe while this thread holds a lock that others
            need to go on: `close` waits for other threads for a moment only.

    Raises:
        UsageError: there is no factory.
    """

    next_reset: NextReset
    is_garbage = False

    def __init__(
        self, env_fn: Sequence[Callable[[], Env]], cfg: Any = None, ids: Sequence[int] | None = None
    ) -> None:
        if not isinstance(env_fn, Sequence) or not env_fn:
            raise UsageError(
                "a manager needs a list of functions, each of which makes an environment",
                hint="env_fn=[make] * 8",
            )
        for env_id, make in enumerate(env_fn):
            if not callable(make):
                raise UsageError(
                    f"env_fn[{env_id}] is a {type(make).__name__}, not a function that makes one",
                    hint="env_fn=[lambda: gymnasium.make('CartPole-v1')] * 8",
                )
        self.cfg = cfg
        self.ids = list(range(len(env_fn)) if ids is None else ids)
        self.env_fn = dict(zip(self.ids, env_fn, strict=True))
        self.envs: dict[int, Adapted | None] = dict.fromkeys(self.ids)
        self._steps: list[Callable[[Tree], Tree]] = []
        self._interrupted = False
        self._row = {env_id: row for row, env_id in enumerate(self.ids)}
        self._layers = StatefulLayers({})

    def __len__(self) -> int:
        return len(self.env_fn)

    def env(self, env_id: int) -> Adapted:
        """Returns an environment, made on first need.

        Raises:
            EnvCreateError: it could not be made.
        """
        env = self.envs[env_id]
        if env is None:
            try:
                env = self.envs[env_id] = adapt(self.env_fn[env_id]())
            except DicoreError as error:
                error.context = MappingProxyType({"env_id": env_id, **error.context})
                raise
            except (Exception, SystemExit) as error:
                raise EnvCreateError(
                    f"env {env_id} could not be made: {described(error)}",
                    hint=advice(error),
                    context={"env_id": env_id},
                ) from error
        return env

    def launch(self) -> list[float]:
        """Makes all environments; returns their time limits.

        Raises:
            EnvCreateError: an environment could not be made, or two are the same object.
        """
        envs = {env_id: self.env(env_id) for env_id in self.ids}
        check_different(envs)
        self._layers = StatefulLayers({env_id: env.env for env_id, env in envs.items()})
        self._steps = [env.step for env in envs.values()]
        return [env.time_limit for env in envs.values()]

    def reset(
        self, ids: Sequence[int], seeds: Sequence[int], params: Sequence[Mapping[str, object]]
    ) -> list[Tree]:
        """Resets environments once; pending steps of theirs are dropped.

        An environment that was discarded, or failed for good, is made again.

        Returns:
            By row what `reset` returned (observation and info), or the exception that it raised.
        """
        found: list[Tree] = []
        layers = self._layers
        for row, env_id in enumerate(ids):
            try:
                if layers.any:
                    layers.begin(env_id)
                env = self.envs[env_id] or self._renewed(env_id)
                if self._interrupted:
                    self._steps[self._row[env_id]] = env.step
                reset, given = env.reset, params[row]
                found.append(reset(seed=seeds[row], **given) if given else reset(seed=seeds[row]))
            except (Exception, SystemExit) as error:
                found.append(error)
        return found

    def step(self, ids: list[int], actions: Iterable[Tree]) -> Results:
        """Steps environments; an exception of one does not stop the others.

        An asynchronous pool sends the actions and returns the results of at least one environment
        that has a pending action; without ids it only waits.

        Args:
            ids: The environments, each of which has been reset and has no pending action.
            actions: One legal action each.
        """
        obs: list[Tree] = []
        rewards: list[Tree] = []
        infos: list[Info] = []
        ended: dict[int, tuple[Tree, Tree]] = {}
        raised: dict[int, BaseException] = {}
        steps = self._steps
        if ids is not self.ids:
            steps = [steps[self._row[env_id]] for env_id in ids]
        pairs = zip(steps, actions)  # noqa: B905 - checked to be equally long
        while True:
            try:
                for step, each in pairs:
                    seen, reward, terminated, truncated, info = step(each)
                    if terminated or truncated:
                        ended[len(obs)] = (terminated, truncated)
                    obs.append(seen)
                    rewards.append(reward)
                    infos.append(info)
            except (Exception, SystemExit) as error:
                row = len(obs)
                raised[row] = error
                ended.pop(row, None)
                obs.append(None)
                rewards.append(0.0)
                infos.append({})
            except BaseException:  # Ctrl-C: nobody knows which environments were stepped
                self._interrupt(ids)
                raise
            else:
                return ids, obs, rewards, infos, ended, raised

    def _interrupt(self, ids: Iterable[int]) -> None:
        self._interrupted = True
        for env_id in ids:
            self._steps[self._row[env_id]] = interrupted

    def _renewed(self, env_id: int) -> Adapted:
        """Makes an environment again after it was discarded.

        Raises:
            EnvCreateError: it could not be made.
        """
        made = self.env(env_id)
        self._steps[self._row[env_id]] = made.step
        self._layers.replace(env_id, made.env)
        return made

    def discard(self, env_id: int) -> None:
        """Closes an environment and drops it; a failing close is logged."""
        self._close([env_id])

    def close(self) -> None:
        """Closes all environments within 5 s; those that hang or fail are logged."""
        self._close(self.ids)

    def _close(self, ids: Sequence[int]) -> None:
        envs = {env_id: self.envs[env_id] for env_id in ids}
        self.envs.update(dict.fromkeys(ids))
        made = {env_id: env.env for env_id, env in envs.items() if env is not None}
        close_all(made, self.close_s)

    @property
    def close_s(self) -> float:
        """Seconds for which `close` waits for other threads."""
        return _GARBAGE_S if self.is_garbage else CLOSE_S

    def exists(self, env_id: int) -> bool:
        """Returns whether an environment is made."""
        return self.envs[env_id] is not None

    def space(self, name: str, old_name: str) -> Space:
        """Returns a space of the first environment, or what its older `info()` returns for it.

        Raises:
            EnvSpaceError: it has none.
        """
        env = self.env(self.ids[0]).env
        space: Space | None = None
        with contextlib.suppress(AttributeError):  # a wrapper of gymnasium hides `reward_space`
            space = _attribute(env, name)
        if space is None and has_old_info(env):
            info: Mapping[str, Any] | Any = env.info()
            get = info.get if isinstance(info, Mapping) else partial(getattr, info)
            space = get(old_name, None)
        if space is None:
            raise EnvSpaceError(
                f"the environment {type(env).__name__} has no {name}",
                hint=f"set self.{name}=gymnasium.spaces.… in its __init__",
            )
        return space

    def attribute(self, env_id: int, name: str) -> Any:
        """Returns an attribute of an environment or of one of its wrappers."""
        return _attribute(self.env(env_id).env, name)

    def has(self, env_id: int, name: str) -> bool:
        """Returns whether an environment has a method or an attribute, or `call` replaces it."""
        made = self.env(env_id)
        if _has(made.core, name) or name == "random_action":
            return True
        return name == "enable_save_replay" and _can_record(made.env)

    def call(self, env_id: int, name: str, *args: Any, **kwargs: Any) -> Any:
        """Calls a method of an environment.

        Without methods of their own, environments record videos (`enable_save_replay`) from their
        next reset on if they render images, and draw from their action space (`random_action`).
        """
        made = self.env(env_id)
        if name in ("random_action", "enable_save_replay") and not _has(made.core, name):
            from dicore_plugins.env_managers.optional import random_action, recorded

            if name == "random_action":
                return random_action(made.env)
            if _can_record(made.env):
                self.envs[env_id] = made = recorded(made, env_id, *args, **kwargs)
                if self._steps:
                    self._steps[self._row[env_id]] = made.step
                return None
        # of the core: a peeled OrderEnforcing has not seen the reset and would refuse to render
        return _attribute(made.core, name)(*args, **kwargs)

    def worker_pids(self) -> dict[int, int]:
        """Returns the ids of other processes in which environments run, by env id."""
        return {}

    def state_of(self, env_id: int) -> Any:
        """Returns the state of an environment within its episode; None: it cannot save it."""
        core = self.env(env_id).core
        if not hasattr(type(core), "get_state"):
            return None
        from dicore_plugins.env_managers.replay import state_of

        return state_of(core)

    def load_state(self, env_id: int, state: State) -> bool:
        """Restores what `state_of` returned, after a reset; returns whether it could."""
        from dicore_plugins.env_managers.replay import load_state

        try:
            load_state(self.env(env_id).core, state)
        except Exception as error:
            _LOG.warning("env %d: its state cannot be restored: %s", env_id, described(error))
            return False
        return True

    def has_layers(self) -> bool:
        """Returns whether an environment has layers with a state that outlives episodes."""
        return self._layers.any

    def layer_states(self, env_id: int, *, begun: bool = False) -> Sequence[Tree]:
        """Returns the states of an environment's stateful layers, now or before its episode."""
        return self._layers.begun(env_id) if begun else self._layers.now(env_id)

    def load_layers(self, layers: Sequence[Sequence[object]]) -> None:
        """Restores the states of all environments, which `layer_states` returned one by one."""
        for env_id, states in enumerate(layers):
            self.load_layer_states(env_id, states)

    def load_layer_states(self, env_id: int, states: Sequence[Tree]) -> None:
        """Restores what `layer_states` returned."""
        self._layers.load(env_id, states)


def interrupted(action: Tree) -> object:
    """The step of an environment whose last step was interrupted, until it is reset."""
    raise EnvStateError("the step before was interrupted", hint="reset the environment")


def check_different(envs: Mapping[int, Adapted]) -> None:
    """Raises EnvCreateError if two environments are the same object."""
    first: dict[int, int] = {}
    for env_id, made in envs.items():
        other = first.setdefault(id(innermost(made.core)), env_id)
        if other != env_id:
            raise EnvCreateError(
                f"env {other} and env {env_id} are the same object",
                hint="each factory must create a new environment per call",
                context={"env_id": env_id},
            )


def close_all(envs: Mapping[int, Env], seconds: float) -> None:
    """Closes environments, by id; those that hang for so many seconds, or fail, are logged."""
    closing: dict[int, Thread] = {}
    until = time.monotonic() + seconds
    for env_id, env in envs.items():
        close = getattr(env, "close", None)
        if close is None:
            continue
        # a window belongs to the thread that created it, and the end of Python starts no thread
        if getattr(env, "render_mode", None) is not None or sys.is_finalizing():
            close_one(env_id, close)
            continue
        closing[env_id] = Thread(target=close_one, args=(env_id, close), daemon=True)
        closing[env_id].start()
        closing[env_id].join(max(0.0, min(1.0, until - time.monotonic())))
    for env_id, thread in closing.items():
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive() and seconds > _GARBAGE_S:
            _LOG.warning("env %d: close() did not return within %g s", env_id, seconds)


def close_one(env_id: int, close: Callable[[], Any]) -> None:
    """Closes an environment; a failure is logged."""
    try:
        close()
    except (Exception, SystemExit) as error:
        _LOG.warning("closing env %d failed: %s", env_id, described(error))


def _has(env: Env, name: str) -> bool:
    try:
        _attribute(env, name)
    except AttributeError:
        return False
    return True


def _can_record(env: Env) -> bool:
    """Returns whether an environment renders images, of which videos can be made."""
    return getattr(env, "render_mode", None) == "rgb_array"


def _attribute(env: Env, name: str) -> Any:
    get = getattr(env, "get_wrapper_attr", None)
    return getattr(env, name) if get is None else get(name)


def advice(error: BaseException) -> str:
    """Returns the hint for a failed construction."""
    if isinstance(error, ModuleNotFoundError):
        return f"install the package that provides '{error.name}'"
    if type(error).__name__ == "DependencyNotInstalled":
        return "install what the message names"
    if isinstance(error, TypeError) and "required" in str(error) and "argument" in str(error):
        return (
            "give the parameter a type or a default; then it is an option of the config: env.…; or"
            " name a function that passes it: ./FILE.py:FUNCTION"
        )
    return "--debug shows the traceback; make one env by hand to reproduce it"
