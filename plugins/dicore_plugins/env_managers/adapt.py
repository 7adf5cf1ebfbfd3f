"""One shape for every environment: gymnasium's, whatever generation it comes from.

Other forms are recognised by what they do, with or without the package `gym` installed: a `reset`
that returns the observation alone, a `step` of four results, seeds given by `seed()`.
"""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from dicore.errors import CheckpointCorruptError, EnvError

__all__ = ["Adapted", "adapt"]

_LOG = logging.getLogger("dicore.env")
_PEELED = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker")


class Adapted(NamedTuple):
    """An environment as a manager steps it.

    Args:
        env: The environment that was made, wrappers included.
        core: What is stepped: `env`, or what is in it without gymnasium's standard wrappers.
        step: Returns observation, reward, terminated, truncated, info.
        reset: Takes seed and keyword arguments; returns observation and info.
        time_limit: Steps after which the manager truncates; inf where the env does it itself.
    """

    env: Any
    core: Any
    step: Callable[[Any], tuple[Any, Any, Any, Any, Any]]
    reset: Callable[..., tuple[Any, Any]]
    time_limit: float


def adapt(env: Any) -> Adapted:
    """Returns an environment in gymnasium's shape.

    The wrappers that `gymnasium.make` puts around every env are peeled off where they are the only
    ones (a manager does their work, at 6 % of a step of CartPole); others are never touched.

    Raises:
        EnvError: the object has no `reset` and `step`, or is several environments.
    """
    if _derives(env, "VectorEnv"):
        raise EnvError(
            f"{type(env).__name__} is {env.num_envs} environments; a manager takes single ones",
            hint="gymnasium.make instead of make_vec; env.collector_env_num says how many",
        )
    if not callable(getattr(env, "step", None)) or not callable(getattr(env, "reset", None)):
        raise EnvError(
            f"{env!r} is no environment: it needs reset(seed=…) and step(action)",
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
    """Says whether an environment is of a class of gymnasium, without importing that."""
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] == "gymnasium"
        for base in type(env).__mro__
    )


def _parameters(function: Callable[..., Any]) -> set[str]:
    """Returns the names of a function's parameters; `seed` is among them if it takes any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {"seed"}
    names = {each.name for each in parameters}
    return names | {"seed"} if any(each.kind is each.VAR_KEYWORD for each in parameters) else names


def _peel(env: Any) -> tuple[Any, float]:
    """Takes off gymnasium's standard wrappers; returns the core and the time limit."""
    limit, layer = float("inf"), env
    while layer is not env.unwrapped:
        wrapper = type(layer)
        if wrapper.__name__ not in _PEELED or not wrapper.__module__.startswith("gymnasium."):
            return env, float("inf")
        if wrapper.__name__ == "TimeLimit":
            limit = min(limit, layer._max_episode_steps)  # noqa: SLF001 - it has no public name
        layer = layer.env
    return layer, limit


class OtherForm:
    """An environment of an older generation, of the documents' own form, or of no known class.

    Args:
        env: Has `reset`, which returns an observation, with or without info, and `step`, which
            returns four or five results; may have `seed`.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self._takes_seed = "seed" in _parameters(env.reset)
        seed = getattr(env, "seed", None)
        self._seed = seed if callable(seed) else None
        static = self._seed is not None and "dynamic_seed" in _parameters(self._seed)
        self._static = {"dynamic_seed": False} if static else {}

    def reset(self, *, seed: int | None = None, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Seeds, if asked to, and begins an episode."""
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
            EnvError: the results are neither four nor five.
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
        _tell(type(self._env).__name__)
        obs, reward, done, info = result
        truncated = bool(
            getattr(result, "truncated", False) or info.get("TimeLimit.truncated", False)
        )
        terminated = getattr(result, "terminated", bool(done) and not truncated)
        return obs, reward, terminated, truncated, info


@cache
def _tell(name: str) -> None:
    """Says once for each class that it is adapted."""
    _LOG.info("%s has the older step of four results: adapted to gymnasium's", name)


States = Sequence[Any]


class StatefulLayers:
    """Keeps what such layers knew before each running episode, by which it can be played again.

    Args:
        envs: All environments of a manager, by id.
    """

    def __init__(self, envs: Iterable[Any] = ()) -> None:
        self._found = [_stateful(env) for env in envs]
        self.any = any(self._found)
        self._begun: list[States] = [[] for _ in self._found]

    def begin(self, env_id: int) -> None:
        """Notes what is known before an episode begins."""
        self._begun[env_id] = self.now(env_id)

    def begun(self, env_id: int) -> States:
        """Returns what was known before the running episode."""
        return self._begun[env_id]

    def now(self, env_id: int) -> States:
        """Returns what is known, as copies."""
        return [copy.deepcopy(layer.state_dict()) for layer in self._found[env_id]]

    def load(self, env_id: int, states: States) -> None:
        """Restores what `now` or `begun` returned.

        Raises:
            CheckpointCorruptError: it is of another environment.
        """
        layers = self._found[env_id]
        if len(states) != len(layers):
            names = ", ".join(type(layer).__name__ for layer in layers) or "none"
            raise CheckpointCorruptError(
                f"{len(states)} states for the layers with state of env {env_id}: {names}"
            )
        for layer, state in zip(layers, states, strict=True):
            layer.load_state_dict(state)

    def replace(self, env_id: int, env: Any) -> None:
        """Hands what one environment knows on to the one that takes its place."""
        states, self._found[env_id] = self.now(env_id), _stateful(env)
        self.load(env_id, states)


def _stateful(env: Any) -> list[Any]:
    """Returns the layers of an environment that have state, the outermost first."""
    found, layer = [], env
    while layer is not None:
        kind = type(layer)  # an older wrapper answers for what is below it
        if callable(getattr(kind, "state_dict", None)) and hasattr(kind, "load_state_dict"):
            found.append(layer)
        layer = vars(layer).get("env") if hasattr(layer, "__dict__") else None
    return found
