"""The environments of one process: made on first need, and what can be asked of them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from dicore.errors import DicoreError, EnvCreateError, EnvSpaceError, UsageError
from dicore_plugins.env_managers.adapt import Adapted, adapt

__all__ = ["EnvInfo", "Fleet"]

_LOG = logging.getLogger("dicore.env")


class EnvInfo(NamedTuple):
    """What the older `info()` of an environment tells."""

    agent_num: int
    obs_space: Any
    act_space: Any
    rew_space: Any


class Fleet:
    """Makes environments from factories and speaks with them one by one.

    Args:
        env_fn: One factory per environment.

    Raises:
        UsageError: there is no factory.
    """

    method_name_list: tuple[str, ...] = (
        "render", "random_action", "reward_shaping", "enable_save_replay", "enable_save_figure",
        "get_state", "set_state",
    )  # fmt: skip
    """Methods that `env_call` may call: those that a manager keeps no books of."""

    def __init__(self, env_fn: Sequence[Callable[[], Any]]) -> None:
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
        self._env_fn = list(env_fn)
        self._envs: list[Adapted | None] = [None] * len(self._env_fn)

    @property
    def env_num(self) -> int:
        """N."""
        return len(self._env_fn)

    def _env(self, env_id: int) -> Adapted:
        """Returns an environment, made on first need.

        Raises:
            EnvCreateError: making it failed.
        """
        found = self._envs[env_id]
        if found is None:
            try:
                found = self._envs[env_id] = adapt(self._env_fn[env_id]())
            except DicoreError as error:
                error.context = MappingProxyType({"env_id": env_id, **error.context})
                raise
            except Exception as error:
                raise EnvCreateError(
                    f"env {env_id} could not be made: {type(error).__name__}: {error}",
                    hint=_advice(error),
                    context={"env_id": env_id},
                ) from error
        return found

    def _discard(self, env_id: int) -> None:
        """Closes an environment and forgets it; a failing close is logged."""
        found, self._envs[env_id] = self._envs[env_id], None
        if found is None or not hasattr(found.env, "close"):
            return
        try:
            found.env.close()
        except Exception as error:
            _LOG.warning("closing env %d failed: %s: %s", env_id, type(error).__name__, error)

    # ---- shapes

    @property
    def observation_space(self) -> Any:
        """Of one environment; makes at most one."""
        return _space(self._env(0).env, "observation_space", "obs_space")

    @property
    def action_space(self) -> Any:
        """Of one environment; makes at most one."""
        return _space(self._env(0).env, "action_space", "act_space")

    @property
    def reward_space(self) -> Any:
        """Of one environment: a float32 scalar, unless it says otherwise."""
        env = self._env(0).env
        with contextlib.suppress(EnvSpaceError):
            return _space(env, "reward_space", "rew_space")
        from gymnasium.spaces import Box

        low, high = getattr(env, "reward_range", (-np.inf, np.inf))
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
        """Returns the same in the older form: number of agents and the three spaces."""
        agents = getattr(self._env(0).env, "agent_num", 1)
        return EnvInfo(agents, self.observation_space, self.action_space, self.reward_space)

    # ---- attributes and methods

    def env_attr(self, name: str) -> list[Any]:
        """Returns an attribute of every environment.

        Raises:
            AttributeError: an environment has no such attribute.
        """
        return [_attribute(self._env(env_id).env, name) for env_id in range(self.env_num)]

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
        return [self._method(i, name)(*args, **kwargs) for i in range(self.env_num)]

    def _method(self, env_id: int, name: str) -> Callable[..., Any]:
        # of the core: a peeled OrderEnforcing has not seen the reset and would refuse to render
        found: Callable[..., Any] = _attribute(self._env(env_id).core, name)
        return found

    def enable_save_replay(self, replay_path: str | Sequence[str]) -> None:
        """Records episodes from now on, in environments that can; one folder or one each.

        Raises:
            UsageError: an environment cannot record, or there is another number of folders.
        """
        one = isinstance(replay_path, str)
        paths = [replay_path] * self.env_num if one else list(replay_path)
        if len(paths) != self.env_num:
            raise UsageError(f"{len(paths)} folders for {self.env_num} environments")
        for env_id, path in enumerate(paths):
            self._record(env_id, "enable_save_replay", path)

    def enable_save_figure(self, env_id: int, figure_path: str) -> None:
        """Lets one environment save figures from now on.

        Raises:
            UsageError: it cannot.
        """
        self._record(env_id, "enable_save_figure", figure_path)

    def _record(self, env_id: int, name: str, path: Any) -> None:
        try:
            method = self._method(env_id, name)
        except AttributeError:
            raise UsageError(f"env {env_id} ({self._env(env_id).env}) has no {name}") from None
        method(path)

    def reward_shaping(self, env_id: int, transitions: Any) -> Any:
        """Lets an environment reshape the rewards of its episode; as they are if it does not."""
        try:
            shape = self._method(env_id, "reward_shaping")
        except AttributeError:
            return transitions
        return shape(transitions)


def _space(env: Any, name: str, old_name: str) -> Any:
    """Returns a space that an environment has, or tells by its older `info()`.

    Raises:
        EnvSpaceError: there is none.
    """
    found = getattr(env, name, None)
    if found is None and callable(getattr(env, "info", None)):
        told: Mapping[str, Any] | Any = env.info()
        get = told.get if isinstance(told, Mapping) else partial(getattr, told)
        found = get(old_name, None)
    if found is None:
        raise EnvSpaceError(
            f"{env!r} has no {name}",
            hint=f"set self.{name}=gymnasium.spaces.… in its __init__",
        )
    return found


def _attribute(env: Any, name: str) -> Any:
    get = getattr(env, "get_wrapper_attr", None)
    return getattr(env, name) if get is None else get(name)


def _advice(error: Exception) -> str:
    """Says what to do about a failed construction."""
    if isinstance(error, ModuleNotFoundError):
        return f"install the package that provides '{error.name}'"
    if type(error).__name__ == "DependencyNotInstalled":
        return "install what the message names"
    if isinstance(error, TypeError) and "required" in str(error) and "argument" in str(error):
        return "give the parameter a type or a default; then it is an option of the config: env.…"
    return "the cause is chained; make one env by hand to see it alone"
