"""One shape for every environment: gymnasium's, whatever generation it comes from.

Old forms are recognised by what they do, with or without the package `gym` installed: `reset` that
returns the observation alone, `step` of four results, seeds given by `seed()`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from dicore.errors import EnvError

_PEELED = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker")


class Adapted(NamedTuple):
    """An environment as a manager steps it.

    Args:
        env: The environment that was made, wrappers included.
        step: Returns observation, reward, terminated, truncated, info.
        reset: Takes seed and keyword arguments; returns observation and info.
        time_limit: Steps after which the manager truncates; inf where the env does it itself.
    """

    env: Any
    step: Callable[[Any], tuple[Any, Any, Any, Any, Any]]
    reset: Callable[..., tuple[Any, Any]]
    time_limit: float


def adapt(env: Any) -> Adapted:
    """Returns an environment in gymnasium's shape.

    The wrappers that `gymnasium.make` puts around every env are peeled off where they are the only
    ones (a manager does their work); others are never touched.

    Raises:
        EnvError: the object has no `reset` and `step`.
    """
    if not callable(getattr(env, "step", None)) or not callable(getattr(env, "reset", None)):
        raise EnvError(
            f"{env!r} is no environment: it needs reset() and step(action)",
            hint="derive from gymnasium.Env",
        )
    if not _takes_seed(env.reset):
        old = OldEnv(env)
        return Adapted(env, old.step, old.reset, float("inf"))
    core, limit = _peel(env)
    return Adapted(env, core.step, core.reset, limit)


def _takes_seed(reset: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(reset).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(each.name == "seed" or each.kind is each.VAR_KEYWORD for each in parameters)


def _peel(env: Any) -> tuple[Any, float]:
    """Takes off gymnasium's standard wrappers; returns the core and the time limit."""
    limit, layer = float("inf"), env
    while hasattr(layer, "env") and type(layer).__module__.startswith("gymnasium.wrappers."):
        name = type(layer).__name__
        if name not in _PEELED:
            return env, float("inf")
        if name == "TimeLimit":
            limit = min(limit, layer._max_episode_steps)  # noqa: SLF001 - it has no public name
        layer = layer.env
    if hasattr(layer, "env") or getattr(env, "unwrapped", None) is not layer:
        return env, float("inf")
    return layer, limit


class OldEnv:
    """An environment of an older generation, or of the documents' own form.

    Args:
        env: Has `reset() -> obs` and `step(action)` of four or five results, or one timestep.
    """

    def __init__(self, env: Any) -> None:
        self._env = env

    def reset(self, *, seed: int | None = None, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Seeds, if asked to, and begins an episode."""
        if seed is not None and callable(getattr(self._env, "seed", None)):
            try:
                self._env.seed(seed, dynamic_seed=False)
            except TypeError:
                self._env.seed(seed)
        result = self._env.reset(**kwargs)
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
            return result
        return result, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps; an old time limit (`TimeLimit.truncated` in info) counts as truncation."""
        result = self._env.step(action)
        if len(result) == 5:
            return tuple(result)  # type: ignore[return-value]
        obs, reward, done, info = result
        truncated = bool(
            getattr(result, "truncated", False) or info.get("TimeLimit.truncated", False)
        )
        return obs, reward, bool(done) and not truncated, truncated, info
