"""Parallel environments of PettingZoo as environments whose columns have an axis of agents.

Shapes: A agents, in the order of `possible_agents`.
"""

from __future__ import annotations

import copy
import difflib
import importlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dicore.console import without_secrets
from dicore.data import Info, Tree
from dicore.errors import ConfigError, EnvError, MissingDependencyError
from dicore_registry import code_paths

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

__all__ = ["ParallelAgents", "make_parallel"]


class ParallelAgents(gymnasium.Env[Tree, Tree]):
    """A parallel environment of PettingZoo with the Gymnasium API.

    Observations are stacked, [A, ...], if the observation spaces of all agents are equal, otherwise
    they are dicts by agent name; so are actions. Rewards are float32 [A]. An agent that is done, or
    does not exist yet, has the reward 0 and an observation of zeros (or the values closest to zero
    in its space; an `action_mask` allows all); its actions are ignored. The episode ends with the
    last agent: as truncated if an agent was truncated in that step, else as terminated.

    `info["alive"]`, bool [A], marks the agents that act in the next step; `info["agents"]` has the
    infos by agent name, if there are any.

    Args:
        env: A `pettingzoo.ParallelEnv` with `possible_agents`.
        team_reward: Return the sum of all rewards, one number.
        add_alive: Return observations as `{obs, alive}`.

    Attributes:
        agent_num: A.
        agents: Names of all agents.

    Raises:
        EnvError: the environment does not list its agents.
    """

    def __init__(self, env: Any, *, team_reward: bool = False, add_alive: bool = False) -> None:
        names = list(getattr(env, "possible_agents", None) or ())
        if not names:
            raise EnvError(
                f"{env} does not list its agents", hint="set possible_agents in its __init__"
            )
        self.env, self.agents, self.agent_num = env, [str(name) for name in names], len(names)
        self._names, self._team, self._add_alive = names, team_reward, add_alive
        self.metadata = dict(getattr(env, "metadata", None) or {})
        self.render_mode = getattr(env, "render_mode", None)
        self._obs = _Agents([env.observation_space(name) for name in names], self.agents)
        self._act = _Agents([env.action_space(name) for name in names], self.agents)
        self.observation_space = self._obs.space
        if add_alive:
            alive = spaces.MultiBinary(self.agent_num)
            self.observation_space = spaces.Dict({"obs": self._obs.space, "alive": alive})
        self.action_space = self._act.space
        shape = () if team_reward else (self.agent_num,)
        self.reward_space = spaces.Box(-np.inf, np.inf, shape, np.float32)
        self._alive: npt.NDArray[np.bool_] = np.zeros(self.agent_num, np.bool_)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        super().reset(seed=seed)  # for wrappers that draw from np_random
        obs, infos = self.env.reset(seed=seed, options=options)
        self._alive = np.array([name in self.env.agents for name in self._names])
        return self._shown(obs), self._info(infos)

    def step(self, action: Tree) -> tuple[Tree, Tree, bool, bool, Info]:
        """Steps the environment with the actions of those agents that are left."""
        acting = set(self.env.agents)
        actions = self._act.split(action)
        given = {name: actions[i] for i, name in enumerate(self._names) if name in acting}
        obs, rewards, terminated, truncated, infos = self.env.step(given)
        left = set(self.env.agents)
        self._alive = np.array([
            name in left and not terminated.get(name, False) and not truncated.get(name, False)
            for name in self._names
        ])  # fmt: skip
        reward = np.array([rewards.get(name, 0.0) for name in self._names], np.float32)
        over = not self._alive.any()
        cut = over and any(truncated.get(name, False) for name in acting)
        paid = float(reward.sum()) if self._team else reward
        return self._shown(obs), paid, over and not cut, cut, self._info(infos)

    def render(self) -> Tree:
        """Returns what the environment's `render` returns."""
        return self.env.render()

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()

    def __str__(self) -> str:
        return f"<ParallelAgents<{self.env}>>"

    def _shown(self, obs: Mapping[str, Tree]) -> Tree:
        shown = zip(self._names, self._alive.tolist(), strict=True)
        joined = self._obs.join([
            obs.get(name) if alive else _all_allowed(obs.get(name)) for name, alive in shown
        ])  # fmt: skip
        return {"obs": joined, "alive": self._alive.astype(np.int8)} if self._add_alive else joined

    def _info(self, infos: Mapping[str, Info]) -> Info:
        told = {str(name): info for name, info in infos.items() if info}
        info: Info = {"alive": self._alive.copy()}
        return {**info, "agents": told} if told else info


class _Agents:
    """The space of all agents, stacked or by name, and its values.

    Args:
        parts: The space of each agent.
        names: Their names.
    """

    def __init__(self, parts: list[Tree], names: list[str]) -> None:
        alike = all(part == parts[0] for part in parts)
        stacked = _stacked_space(parts[0], len(parts)) if alike else None
        self._parts, self._names, self._stacked = parts, names, stacked is not None
        by_name = dict(zip(names, parts, strict=True))
        self.space: Space = spaces.Dict(by_name) if stacked is None else stacked
        self._absent = [_nearest_zero(part) for part in parts]

    def join(self, values: list[Tree]) -> Tree:
        """Returns the values of all agents; those that are None are zeros."""
        full = [
            absent if value is None else value
            for value, absent in zip(values, self._absent, strict=True)
        ]
        if self._stacked:
            return _stack(self._parts[0], full)
        return {name: _own(value) for name, value in zip(self._names, full, strict=True)}

    def split(self, value: Tree) -> list[Tree]:
        """Returns the value of each agent."""
        if not self._stacked:
            return [value[name] for name in self._names]
        if isinstance(self._parts[0], spaces.Discrete):
            return [int(each) for each in value]
        return list(value)


def _stacked_space(space: Space, count: int) -> Any:
    """Returns the space of `count` values of a space, [count, ...]; None if they do not stack."""
    if isinstance(space, spaces.Box):
        low, high = (np.stack([bound] * count) for bound in (space.low, space.high))
        return spaces.Box(low, high, dtype=space.dtype.type)
    if isinstance(space, spaces.Discrete):
        return spaces.MultiDiscrete([space.n] * count, start=[space.start] * count)
    if isinstance(space, spaces.MultiDiscrete):
        nvec, start = (np.stack([each] * count) for each in (space.nvec, space.start))
        return spaces.MultiDiscrete(nvec, start=start)
    if isinstance(space, spaces.MultiBinary):
        return spaces.MultiBinary([count, *np.atleast_1d(space.n).tolist()])
    if isinstance(space, spaces.Dict):
        parts = {key: _stacked_space(part, count) for key, part in space.spaces.items()}
        return None if None in parts.values() else spaces.Dict(parts)
    return None


def _stack(space: Space, values: list[Tree]) -> Tree:
    if isinstance(space, spaces.Dict):
        return {key: _stack(part, [each[key] for each in values]) for key, part in space.items()}
    dtype = np.int64 if isinstance(space, spaces.Discrete) else space.dtype
    return np.array(values, dtype)


def _all_allowed(value: Tree) -> Tree:
    """Returns the observation of an agent that does not act: a policy must find an action."""
    if not isinstance(value, Mapping) or "action_mask" not in value:
        return value
    return {**value, "action_mask": np.ones_like(value["action_mask"])}


def _own(value: Tree) -> Tree:
    """Copies an array: an environment may hand out one that it writes again."""
    return value.copy() if isinstance(value, np.ndarray) else value


def _nearest_zero(space: Space) -> Tree:
    """Returns the value of a space that is closest to zero."""
    if isinstance(space, spaces.Box):
        return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
    if isinstance(space, spaces.Dict):
        zeros = {key: _nearest_zero(part) for key, part in space.spaces.items()}
        return _all_allowed(zeros)
    if isinstance(space, spaces.Tuple):
        return tuple(_nearest_zero(part) for part in space.spaces)
    if isinstance(space, spaces.Discrete):
        return np.int64(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start.copy()
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape, space.dtype)
    other = copy.deepcopy(space)  # text, sequences, graphs: any value, always the same
    other.seed(0)
    return other.sample()


def make_parallel(env_id: str, **kwargs: object) -> Any:
    """Makes a parallel environment of PettingZoo.

    Args:
        env_id: An id of its registry (`sisl/pursuit_v5` or `sisl.pursuit_v5`), or a module with a
            function `parallel_env`, such as `mpe2.simple_spread_v3`.
        **kwargs: Arguments of that function.

    Raises:
        ConfigError: there is no such environment, it is turn-based, or it refuses the arguments.
        MissingDependencyError: a package that it needs is not installed.
    """
    try:
        import pettingzoo
        from pettingzoo.env_registry.exceptions import FailedToImport
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "environments 'pettingzoo:…' need the package pettingzoo",
            hint="pip install 'dicore-plugins[pettingzoo]'",
        ) from error
    code_paths.check_arguments(kwargs, "env.make_kwargs")
    name = re.sub(r"_v(\d+)$", r"-v\1", env_id.replace(".", "/"))  # as the registry writes it
    try:
        if name in pettingzoo.parallel_registry:
            return pettingzoo.make("parallel", name, **kwargs)
        if name in pettingzoo.aec_registry:
            raise ConfigError(
                f"env.env_id: '{env_id}' is turn-based; expected a parallel environment",
                hint="set env.type=pettingzoo_agents (pip install dicore-agents), where a step is a"
                " turn, and choose a policy of several agents",
            )
        return _module_of(env_id, pettingzoo.parallel_registry).parallel_env(**kwargs)
    except TypeError as error:
        why = without_secrets(str(error))
        raise ConfigError(f"env.make_kwargs: '{env_id}': {why}") from error
    except (ImportError, FailedToImport) as error:
        cause = error.__cause__ or error
        raise MissingDependencyError(
            f"env.env_id: '{env_id}' of pettingzoo needs a package that is not installed: {cause}"
        ) from error


def _module_of(env_id: str, registry: Mapping[str, object]) -> Any:
    """Imports a module with `parallel_env`: of PettingZoo, or one by its full name."""
    for name, load in (
        (f"pettingzoo.{env_id}", importlib.import_module),
        (env_id, code_paths.import_module),
    ):
        try:
            module = load(name)
        except ModuleNotFoundError as error:
            if error.name and (name == error.name or name.startswith(f"{error.name}.")):
                continue  # there is no such module
            raise
        if hasattr(module, "parallel_env"):
            return module
    known = sorted(each.replace("/", ".").replace("-v", "_v") for each in registry)
    close = difflib.get_close_matches(env_id, known, 1, 0.5)
    what = f"did you mean '{close[0]}'?" if close else "install the package that provides it"
    raise ConfigError(f"env.env_id: pettingzoo has no parallel environment '{env_id}'; {what}")
