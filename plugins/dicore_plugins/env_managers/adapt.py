"""Adapts one environment to the Gymnasium API, and finds its stateful layers.

One with an older API gets a `GymAdapter`.
"""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from dicore.errors import CheckpointCorruptError, EnvError
from dicore.values import Info, Tree

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["Adapted", "adapt", "from_gym", "innermost"]

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
    step: Callable[[Any], tuple[Tree, Tree, Tree, Tree, Info]]
    reset: Callable[..., tuple[Tree, Info]]
    time_limit: float


def adapt(env: Any) -> Adapted:
    """Returns an environment with the Gymnasium API.

    If the only wrappers are those that `gymnasium.make` adds to every env, they are removed: the
    manager does their work faster (they cost 6 % of a CartPole step). Others are never removed.

    Raises:
        EnvError: the object has no `reset` and `step`, or is a vector env.
    """
    if _derives(env, "VectorEnv") or _derives(env, "VectorEnv", "gym"):
        raise EnvError(
            f"{type(env).__name__} is a vector env of {env.num_envs} envs; expected a single env",
            hint="use gymnasium.make, not make_vec; set env.collector_env_num for more envs",
        )
    env = from_gym(env)
    core, limit = _peel(env)
    return Adapted(env, core, core.step, core.reset, limit)


def from_gym(env: Any, **make_kwargs: object) -> Any:
    """Returns an environment with the Gymnasium API.

    Args:
        env: An id of the package `gym`, or an environment: one of `gym` 0.26, a class with the API
            of `gym` 0.21 or DI-engine, a parallel one of PettingZoo, or one of Gymnasium, which is
            returned as it is.
        **make_kwargs: For an id, keyword arguments of `gym.make`.

    Raises:
        ConfigError: `gym` has no environment with this id.
        MissingDependencyError: `gym`, or a package that the environment needs, is not installed.
        EnvError: the object has no `reset` and `step`.
    """
    if _derives(env, "Env") and "seed" in _parameters(env.reset):
        return env
    from dicore_plugins.env_wrappers.gym_adapter import GymAdapter, make_gym

    env = make_gym(env, **make_kwargs) if isinstance(env, str) else env
    if not callable(getattr(env, "step", None)) or not callable(getattr(env, "reset", None)):
        raise EnvError(
            f"{type(env).__qualname__} is no environment: it needs reset(seed=…) and step(action)",
            hint="derive from gymnasium.Env",
        )
    if _derives(env, "AECEnv", "pettingzoo"):
        raise EnvError(
            f"{env} is turn-based; expected a parallel environment of PettingZoo",
            hint="convert it, by pettingzoo.utils.turn_based_aec_to_parallel",
        )
    if _derives(env, "ParallelEnv", "pettingzoo"):
        from dicore_plugins.env_wrappers.parallel_agents import ParallelAgents

        return ParallelAgents(env)
    return GymAdapter(env)


def innermost(env: Any) -> Any:
    """Returns an environment without its wrappers and without the adapter of an older one."""
    inner = getattr(env, "unwrapped", env)
    adapters = ("GymAdapter", "ParallelAgents")
    adapted = any(_derives(inner, name, "dicore_plugins") for name in adapters)
    return inner.env if adapted else inner


def _derives(env: object, name: str, package: str = "gymnasium") -> bool:
    """Returns whether an env's class derives from a class of a package, without importing it."""
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] == package
        for base in type(env).__mro__
    )


def _parameters(function: Callable[..., object]) -> set[str]:
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


States = Sequence[Any]


class StatefulLayers:
    """State of layers (wrappers or envs) with `state_dict` and `load_state_dict`, for replay.

    Such a layer has state beyond an episode: a normaliser, a curriculum.

    Args:
        envs: The environments of a pool, by id.

    Attributes:
        any: At least one environment has such a layer.
    """

    def __init__(self, envs: Mapping[int, Env]) -> None:
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
        layers = self._layers.get(env_id, [])
        if len(states) != len(layers):
            names = ", ".join(type(layer).__name__ for layer in layers) or "none"
            raise CheckpointCorruptError(
                f"{len(states)} states for the stateful layers of env {env_id}: {names}"
            )
        for layer, state in zip(layers, states, strict=True):
            layer.load_state_dict(state)

    def replace(self, env_id: int, env: Env) -> None:
        """Copies the state of an environment to the one that replaces it."""
        states, self._layers[env_id] = self.now(env_id), _stateful(env)
        self.load(env_id, states)


_MEASURED = {"NormalizeObservation": "obs_rms", "NormalizeReward": "return_rms"}
"""Wrappers of Gymnasium that measure, and where."""


class _Measured:
    """A normaliser of Gymnasium as a layer with state: what it measured."""

    def __init__(self, layer: Any, name: str) -> None:
        self._parts = [vars(getattr(layer, name))]
        if name == "return_rms":
            self._parts.append(vars(layer))
            _tell_scaled_returns()

    def state_dict(self) -> dict[str, Any]:
        names = ("mean", "var", "count", "discounted_reward")
        return {name: each[name] for each in self._parts for name in names if name in each}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for each in self._parts:
            each.update((name, value) for name, value in state.items() if name in each)


@cache
def _tell_scaled_returns() -> None:
    logging.getLogger("dicore.env").warning(
        "gymnasium's NormalizeReward scales the rewards: returns and env.stop_value are of scaled"
        " ones; env.env_wrapper=reward_norm does the same and reports the unscaled"
    )


def _stateful(env: object) -> list[Any]:
    """Returns the stateful layers of an environment, the outermost first."""
    layers, layer = [], env
    while layer is not None:
        kind = type(layer)  # an older wrapper forwards attributes of the env below it
        if callable(getattr(kind, "state_dict", None)) and hasattr(kind, "load_state_dict"):
            layers.append(layer)
        elif kind.__name__ in _MEASURED and kind.__module__.startswith("gymnasium.wrappers."):
            layers.append(_Measured(layer, _MEASURED[kind.__name__]))
        layer = vars(layer).get("env") if hasattr(layer, "__dict__") else None
    return layers
