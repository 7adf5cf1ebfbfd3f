"""The environments of one process: made on first need, reset with retries, asked for attributes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from dicore.errors import (
    DicoreError,
    EnvCreateError,
    EnvResetError,
    EnvSpaceError,
    UsageError,
)
from dicore_plugins.env_managers.adapt import Adapted, StatefulLayers, adapt
from dicore_plugins.env_managers.faults import reset_error

__all__ = ["EnvPool"]

_LOG = logging.getLogger("dicore.env")


class EnvPool:
    """Environments made from factories.

    Args:
        env_fn: One factory per environment.
        cfg: `max_retry`, `retry_type` and `retry_waiting_time` of resets.

    Attributes:
        envs: The environments, None where one is not made.
        steps: The step function of each, after `launch`.
        layers: Their stateful layers, after `launch`.

    Raises:
        UsageError: there is no factory.
    """

    def __init__(self, env_fn: Sequence[Callable[[], Any]], cfg: Any) -> None:
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
        self._cfg = cfg
        self.envs: list[Adapted | None] = [None] * len(self._env_fn)
        self.steps: list[Callable[[Any], Any]] = []
        self.layers = StatefulLayers()

    def __len__(self) -> int:
        return len(self._env_fn)

    def env(self, env_id: int) -> Adapted:
        """Returns an environment, made on first need.

        Raises:
            EnvCreateError: it could not be made.
        """
        env = self.envs[env_id]
        if env is None:
            try:
                env = self.envs[env_id] = adapt(self._env_fn[env_id]())
            except DicoreError as error:
                error.context = MappingProxyType({"env_id": env_id, **error.context})
                raise
            except Exception as error:
                raise EnvCreateError(
                    f"env {env_id} could not be made: {type(error).__name__}: {error}",
                    hint=_advice(error),
                    context={"env_id": env_id},
                ) from error
        return env

    def launch(self) -> list[float]:
        """Makes all environments; returns their time limits.

        Raises:
            EnvCreateError: an environment could not be made, or two are the same object.
        """
        envs = [self.env(env_id) for env_id in range(len(self))]
        first: dict[int, int] = {}
        for env_id, made in enumerate(envs):
            other = first.setdefault(id(made.core), env_id)
            if other != env_id:
                raise EnvCreateError(
                    f"env {other} and env {env_id} are the same object",
                    hint="each factory must create a new environment per call",
                    context={"env_id": env_id},
                )
        self.layers = StatefulLayers(env.env for env in envs)
        self.steps = [env.step for env in envs]
        return [env.time_limit for env in envs]

    def reset(self, env_id: int, seed: int, params: Mapping[str, Any]) -> Any:
        """Resets an environment, with retries; returns its observation.

        Raises:
            EnvResetError: every try failed, or reset returned something else.
        """
        if self.layers.any:
            self.layers.begin(env_id)
        try:
            env = self.envs[env_id] or self._renewed(env_id)
            result = env.reset(seed=seed, **params) if params else env.reset(seed=seed)
        except Exception as error:
            result = self._retry(env_id, seed, params, error)
        if result.__class__ is not tuple or len(result) != 2:
            raise EnvResetError(
                f"env {env_id}: reset returned {type(result).__name__}",
                hint="reset(seed=…) returns observation and info (gymnasium's API)",
                context={"env_id": env_id, "seed": seed},
            )
        return result[0]

    def _retry(self, env_id: int, seed: int, params: Mapping[str, Any], error: Exception) -> Any:
        """Resets an environment again after a failed reset; returns the result.

        Raises:
            EnvResetError: every try failed.
        """
        for attempt in range(1, self._cfg.max_retry):
            failed = reset_error(env_id, seed, attempt, error)
            _LOG.warning("%s; try %d", failed.message, attempt + 1)
            time.sleep(self._cfg.retry_waiting_time)
            if self._cfg.retry_type == "renew":
                self.discard(env_id)
            try:
                env = self.envs[env_id] or self._renewed(env_id)
                return env.reset(seed=seed, **params)
            except Exception as again:
                error = again
        raise reset_error(env_id, seed, self._cfg.max_retry, error) from error

    def _renewed(self, env_id: int) -> Adapted:
        """Makes an environment again after it was discarded.

        Raises:
            EnvCreateError: it could not be made.
        """
        made = self.env(env_id)
        self.steps[env_id] = made.step
        self.layers.replace(env_id, made.env)
        return made

    def discard(self, env_id: int) -> None:
        """Closes an environment and drops it; a failing close is logged."""
        env, self.envs[env_id] = self.envs[env_id], None
        if env is None or not hasattr(env.env, "close"):
            return
        try:
            env.env.close()
        except Exception as error:
            _LOG.warning("closing env %d failed: %s: %s", env_id, type(error).__name__, error)

    def space(self, name: str, old_name: str) -> Any:
        """Returns a space of the first environment, or what its older `info()` returns for it.

        Raises:
            EnvSpaceError: it has none.
        """
        env = self.env(0).env
        space = getattr(env, name, None)
        if space is None and callable(getattr(env, "info", None)):
            info: Mapping[str, Any] | Any = env.info()
            get = info.get if isinstance(info, Mapping) else partial(getattr, info)
            space = get(old_name, None)
        if space is None:
            raise EnvSpaceError(
                f"{env!r} has no {name}",
                hint=f"set self.{name}=gymnasium.spaces.… in its __init__",
            )
        return space

    def attribute(self, env_id: int, name: str) -> Any:
        """Returns an attribute of an environment or of one of its wrappers."""
        return _attribute(self.env(env_id).env, name)

    def method(self, env_id: int, name: str) -> Callable[..., Any]:
        """Returns a method of an environment."""
        # of the core: a peeled OrderEnforcing has not seen the reset and would refuse to render
        method: Callable[..., Any] = _attribute(self.env(env_id).core, name)
        return method


def _attribute(env: Any, name: str) -> Any:
    get = getattr(env, "get_wrapper_attr", None)
    return getattr(env, name) if get is None else get(name)


def _advice(error: Exception) -> str:
    """Returns the hint for a failed construction."""
    if isinstance(error, ModuleNotFoundError):
        return f"install the package that provides '{error.name}'"
    if type(error).__name__ == "DependencyNotInstalled":
        return "install what the message names"
    if isinstance(error, TypeError) and "required" in str(error) and "argument" in str(error):
        return "give the parameter a type or a default; then it is an option of the config: env.…"
    return "see the exception above; make one env by hand to reproduce it"
