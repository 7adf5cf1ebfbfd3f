"""Adapts one environment to the Gymnasium API, and finds its stateful layers.

Older APIs are recognised by their methods, with or without the package `gym` installed: a `reset`
that returns only the observation, a `step` with four results, a `seed()` method.
"""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from dicore.errors import CheckpointCorruptError, EnvError

__all__ = ["Adapted", "adapt"]

_LOG = logging.getLogger("dicore.env")
_PEELED = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker")


class Adapted(NamedTuple):
    """An environment with the functions that a manager calls.

    Args:
        env: The environment with its wrappers.
        core: What is stepped: `env`, or `env` without gymnasium's standard wrappers.
        step: Returns observation, reward, terminated, truncated, info.
        reset: Takes seed and keyword arguments; returns observation and info.
        time_limit: Steps after which the manager truncates; inf: the env truncates itself.
    """

    env: Any
    core: Any
    step: Callable[[Any], tuple[Any, Any, Any, Any, Any]]
    reset: Callable[..., tuple[Any, Any]]
    time_limit: float


def adapt(env: Any) -> Adapted:
    """Returns an environment with the Gymnasium API.

    If the only wrappers are those that `gymnasium.make` adds to every env, they are removed: the
    manager does their work faster (they cost 6 % of a CartPole step). Others are never removed.

    Raises:
        EnvError: the object has no `reset` and `step`, or is a vector env.
    """
    if _derives(env, "VectorEnv"):
        raise EnvError(
            f"{type(env).__name__} is a vector env of {env.num_envs} envs; expected a single env",
            hint="use gymnasium.make, not make_vec; set env.collector_env_num for more envs",
        )
    if not callable(getattr(env, "step", None)) or not callable(getattr(env, "reset", None)):
        raise EnvError(
            f"{env!r} is not an environment: it needs reset(seed=…) and step(action)",
            hint="derive from gymnasium.Env",
        )
    if not (_is_gymnasium(env) and "seed" in _parameters(env.reset)):
        other = OtherForm(env)
        return Adapted(env, env, other.step, other.reset, float("inf"))
    core, limit = _peel(env)
    return Adapted(env, core, core.step, core.reset, limit)


def _is_gymnasium(env: Any) -> bool:
    return _derives(env, "Env")


def _derives(env: Any, name: str) -> bool:
    """Returns whether an env's class derives from a class of gymnasium, without importing it."""
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] == "gymnasium"
        for base in type(env).__mro__
    )


def _parameters(function: Callable[..., Any]) -> set[str]:
    """Returns the names of a function's parameters, with `seed` if it has `**kwargs`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {"seed"}
    names = {each.name for each in parameters}
    return names | {"seed"} if any(each.kind is each.VAR_KEYWORD for each in parameters) else names


def _peel(env: Any) -> tuple[Any, float]:
    """Removes gymnasium's standard wrappers; returns the core and the time limit."""
    limit, layer = float("inf"), env
    while layer is not env.unwrapped:
        wrapper = type(layer)
        if wrapper.__name__ not in _PEELED or not wrapper.__module__.startswith("gymnasium."):
            return env, float("inf")
        if wrapper.__name__ == "TimeLimit":
            limit = min(limit, layer._max_episode_steps)  # noqa: SLF001 - not public anywhere
        layer = layer.env
    return layer, limit


class OtherForm:
    """Adapts an env with an older API, DI-engine's API, or a class that is not gymnasium's.

    Args:
        env: Its `reset` returns an observation, with or without info; its `step` returns four or
            five results; it may have `seed`.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self._takes_seed = "seed" in _parameters(env.reset)
        seed = getattr(env, "seed", None)
        self._seed = seed if callable(seed) else None
        static = self._seed is not None and "dynamic_seed" in _parameters(self._seed)
        self._static = {"dynamic_seed": False} if static else {}

    def reset(self, *, seed: int | None = None, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Begins an episode, with a seed if one is given."""
        if seed is not None and self._takes_seed:
            kwargs["seed"] = seed
        elif seed is not None and self._seed is not None:
            self._seed(seed, **self._static)
        result = self._env.reset(**kwargs)
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
            return result
        return result, {}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps; an old time limit (`TimeLimit.truncated` in info) counts as truncation.

        Raises:
            EnvError: there are neither four nor five results.
        """
        result = self._env.step(action)
        if not isinstance(result, tuple | list) or len(result) not in (4, 5):
            raise EnvError(
                f"step of {type(self._env).__name__} returned {type(result).__name__}",
                hint="return obs, reward, terminated, truncated, info (gymnasium's API)",
            )
        if len(result) == 5:
            obs, reward, terminated, truncated, info = result
            return obs, reward, terminated, truncated, info
        _log_adapted(type(self._env).__name__)
        obs, reward, done, info = result
        truncated = bool(
            getattr(result, "truncated", False) or info.get("TimeLimit.truncated", False)
        )
        terminated = getattr(result, "terminated", bool(done) and not truncated)
        return obs, reward, terminated, truncated, info


@cache
def _log_adapted(name: str) -> None:
    """Logs, once per class, that it is adapted."""
    _LOG.info("%s.step returns four results (older API): adapted to gymnasium's five", name)


States = Sequence[Any]


class StatefulLayers:
    """State of layers (wrappers or envs) with `state_dict` and `load_state_dict`, for replay.

    Such a layer has state beyond an episode: a normaliser, a curriculum.

    Args:
        envs: The environments of a pool, by id.

    Attributes:
        any: At least one environment has such a layer.
    """

    def __init__(self, envs: Mapping[int, Any]) -> None:
        self._layers = {env_id: _stateful(env) for env_id, env in envs.items()}
        self.any = any(self._layers.values())
        self._begun: dict[int, States] = dict.fromkeys(self._layers, ())

    def begin(self, env_id: int) -> None:
        """Stores the state before an episode begins."""
        self._begun[env_id] = self.now(env_id)

    def begun(self, env_id: int) -> States:
        """Returns the state before the running episode."""
        return self._begun[env_id]

    def now(self, env_id: int) -> States:
        """Returns copies of the current state."""
        return [copy.deepcopy(layer.state_dict()) for layer in self._layers[env_id]]

    def load(self, env_id: int, states: States) -> None:
        """Restores what `now` or `begun` returned.

        Raises:
            CheckpointCorruptError: the state is of another environment.
        """
        layers = self._layers[env_id]
        if len(states) != len(layers):
            names = ", ".join(type(layer).__name__ for layer in layers) or "none"
            raise CheckpointCorruptError(
                f"{len(states)} states for the stateful layers of env {env_id}: {names}"
            )
        for layer, state in zip(layers, states, strict=True):
            layer.load_state_dict(state)

    def replace(self, env_id: int, env: Any) -> None:
        """Copies the state of an environment to the one that replaces it."""
        states, self._layers[env_id] = self.now(env_id), _stateful(env)
        self.load(env_id, states)


def _stateful(env: Any) -> list[Any]:
    """Returns the stateful layers of an environment, the outermost first."""
    layers, layer = [], env
    while layer is not None:
        kind = type(layer)  # an older wrapper forwards attributes of the env below it
        if callable(getattr(kind, "state_dict", None)) and hasattr(kind, "load_state_dict"):
            layers.append(layer)
        layer = vars(layer).get("env") if hasattr(layer, "__dict__") else None
    return layers
