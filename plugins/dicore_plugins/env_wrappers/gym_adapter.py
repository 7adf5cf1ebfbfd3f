"""Environments with an older API, as Gymnasium environments.

An older environment is recognised by its methods, with or without the package `gym` installed: a
`reset` that returns only the observation or takes no seed, a `step` with four results, a `seed()`
method, spaces that are not Gymnasium's. `gym` is imported only to make an environment by id.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import logging
import sys
from collections import OrderedDict
from functools import cache
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from dicore.console import without_secrets
from dicore.data import Info, Tree
from dicore.errors import ConfigError, EnvError, MissingDependencyError
from dicore_registry import code_paths

__all__ = ["GymAdapter", "gym_spec", "gymnasium_space", "import_gym", "make_gym"]

_LOG = logging.getLogger("dicore.env")


class GymAdapter(gymnasium.Env[Tree, Tree]):
    """An older environment with the Gymnasium API; it forwards all other attributes.

    Spaces are converted when they are first read, because an environment may create them in its
    first reset.

    Args:
        env: Its `reset` returns an observation, with or without info; its `step` returns four or
            five results; it may have `seed`.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        modes = getattr(env, "metadata", None) or {}
        self.metadata = {key.replace("render.modes", "render_modes"): modes[key] for key in modes}
        self.render_mode = getattr(env, "render_mode", None)
        self._takes_mode = bool(_has_parameter(getattr(env, "render", None), "mode"))
        if self.render_mode is None and self._takes_mode:
            self.render_mode = "rgb_array"
        self._takes_seed = _takes_seed(env)
        seed = getattr(env, "seed", None)
        self._seed = seed if callable(seed) else None
        static = self._seed is not None and _has_parameter(self._seed, "dynamic_seed")
        self._static = {"dynamic_seed": False} if static else {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
        if name in _SPACES:
            space = gymnasium_space(_space(self.env, name))
            setattr(self, name, space)
            return space
        return getattr(self.env, name)

    def reset(
        self, *, seed: int | None = None, options: Info | None = None, **kwargs: object
    ) -> tuple[Tree, Info]:
        super().reset(seed=seed)  # for wrappers that draw from np_random
        if options is not None:
            kwargs["options"] = options
        if seed is not None and self._takes_seed:
            kwargs["seed"] = seed
        elif seed is not None and self._seed is not None:
            self._seed(seed, **self._static)
        result = self.env.reset(**kwargs)
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
            with contextlib.suppress(AttributeError):
                if isinstance(self.observation_space, spaces.Tuple):
                    alone = self.observation_space.contains(result)
                    return (result, {}) if alone else result
            return result
        return result, {}

    def step(self, action: Tree) -> tuple[Tree, Tree, bool, bool, Info]:
        """Steps; an old time limit (`TimeLimit.truncated` in info) counts as truncation.

        Raises:
            EnvError: there are neither four nor five results.
        """
        result = self.env.step(action)
        if not isinstance(result, tuple | list) or len(result) not in (4, 5):
            raise EnvError(
                f"step of {type(self.env).__name__} returned {type(result).__name__}",
                hint="return obs, reward, terminated, truncated, info (gymnasium's API)",
            )
        if len(result) == 5:
            obs, reward, terminated, truncated, info = result
            return obs, reward, terminated, truncated, info
        _log_adapted(type(self.env).__name__)
        obs, reward, done, info = result
        truncated = bool(
            getattr(result, "truncated", False) or info.get("TimeLimit.truncated", False)
        )
        terminated = getattr(result, "terminated", bool(done) and not truncated)
        return obs, reward, terminated, truncated, info

    def render(self) -> Tree:
        """Returns an image or what the environment's `render` returns."""
        return self.env.render(mode=self.render_mode) if self._takes_mode else self.env.render()

    def close(self) -> None:
        """Closes the environment, if it can be closed."""
        close = getattr(self.env, "close", None)
        if close is not None:
            close()

    def __str__(self) -> str:
        return f"<GymAdapter{self.env}>"


_SPACES = {"observation_space": "obs_space", "action_space": "act_space",
           "reward_space": "rew_space"}  # fmt: skip
"""Names of the spaces, and their older names in the result of `info()`."""


def _space(env: Any, name: str) -> Any:
    """Returns a space of an environment, or what its older `info()` returns for it."""
    from dicore_plugins.env_managers.observations import has_old_info

    space = getattr(env, name, None)
    if space is None and has_old_info(env):
        info = env.info()
        space = info.get(_SPACES[name]) if isinstance(info, dict) else getattr(info, _SPACES[name])
    if space is None:
        raise AttributeError(f"{env!r} has no {name}")
    return space


def _takes_seed(env: Any) -> bool:
    """Returns whether `reset` takes a seed: by name, or passed on by wrappers as `**kwargs`."""
    while True:
        found = _has_parameter(env.reset, "seed")
        if found is not None:
            return found
        inner = vars(env).get("env") if hasattr(env, "__dict__") else None
        if inner is None or not hasattr(inner, "reset"):
            return not callable(getattr(env, "seed", None))
        env = inner


def _has_parameter(function: Any, name: str) -> bool | None:
    """Returns whether a function has a parameter; None if it may be one of its `**kwargs`."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    passed = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return True if name in parameters else None if passed else False


@cache
def _log_adapted(name: str) -> None:
    """Logs, once per class, that it is adapted."""
    _LOG.info("%s.step returns four results (older API): adapted to gymnasium's five", name)


# ---- spaces


def gymnasium_space(space: Any) -> Any:
    """Converts a space of `gym` to Gymnasium's, by the name of its class; others are returned."""
    for base in type(space).__mro__:
        root = base.__module__.partition(".")[0]
        if root == "gymnasium":
            return space
        if base.__name__ in _CONVERTERS:
            return _CONVERTERS[base.__name__](space)
    return space


def _box(space: Any) -> spaces.Box:
    low, high = (np.asarray(bound).astype(space.dtype) for bound in (space.low, space.high))
    return spaces.Box(low, high, tuple(space.shape), np.dtype(space.dtype).type)


def _discrete(space: Any) -> spaces.Discrete:
    return spaces.Discrete(int(space.n), start=int(getattr(space, "start", 0)))


def _dict(space: Any) -> spaces.Dict:
    parts = ((key, gymnasium_space(part)) for key, part in space.spaces.items())
    return spaces.Dict(OrderedDict(parts))  # keeps the order


def _graph(space: Any) -> spaces.Graph:
    return spaces.Graph(*map(gymnasium_space, (space.node_space, space.edge_space)))


def _text(space: Any) -> spaces.Text:
    return spaces.Text(
        space.max_length, min_length=space.min_length, charset="".join(space.character_list)
    )


_CONVERTERS: dict[str, Any] = {
    "Box": _box,
    "Discrete": _discrete,
    "MultiBinary": lambda space: spaces.MultiBinary(space.n),
    "MultiDiscrete": lambda space: spaces.MultiDiscrete(space.nvec),
    "Dict": _dict,
    "Tuple": lambda space: spaces.Tuple([gymnasium_space(part) for part in space.spaces]),
    "Sequence": lambda space: spaces.Sequence(gymnasium_space(space.feature_space)),
    "Graph": _graph,
    "Text": _text,
}

# ---- the package gym


@cache
def import_gym() -> ModuleType:
    """Imports `gym`: its notice on stderr becomes one INFO line, and it runs on NumPy 2.

    `gym` 0.26 uses aliases that NumPy 2 removed, in two modules; only there the name `np` gets
    them back.

    Raises:
        MissingDependencyError: `gym` is not installed.
    """
    known = "gym" in sys.modules
    notice = io.StringIO()
    try:
        with contextlib.redirect_stderr(notice):
            gym = importlib.import_module("gym")
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "environments 'gym:…' need the package gym",
            hint="pip install 'dicore-plugins[gym]'; gymnasium:ID needs no extra",
        ) from error
    rest = [line for line in notice.getvalue().splitlines() if not _of_notice(line)]
    if rest:
        sys.stderr.write("\n".join([*rest, ""]))
    if not known:
        _LOG.info("gym %s (unmaintained): adapted to gymnasium's API", gym.__version__)
    if not hasattr(np, "bool8"):
        for name in ("gym.utils.passive_env_checker", "gym.envs.classic_control.acrobot"):
            with contextlib.suppress(ImportError):
                importlib.import_module(name).np = _OldNumpy("numpy")  # type: ignore[attr-defined]
    return gym


def _of_notice(line: str) -> bool:
    """Returns whether a line belongs to the notice that importing `gym` prints."""
    parts = ("Gym has been unmaintained", "Please upgrade to Gymnasium", "Users of this version of",
             "See the migration guide")  # fmt: skip
    return line.startswith(parts)


class _OldNumpy(ModuleType):
    """NumPy with the aliases that NumPy 2 removed."""

    bool8, float_ = np.bool_, np.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def gym_spec(env_id: str) -> Any:
    """Returns the registration of an environment of `gym`.

    Raises:
        ConfigError: the id is not registered.
        MissingDependencyError: `gym` is not installed.
    """
    gym = import_gym()
    module, colon, name = env_id.rpartition(":")
    try:
        if colon:
            code_paths.import_module(module, "env.env_id")
        return gym.spec(name)
    except ModuleNotFoundError as error:
        raise ConfigError(f"env.env_id: '{env_id}': {error}") from error
    except gym.error.Error as error:
        raise ConfigError(f"env.env_id: gym {gym.__version__}: {error}") from error


def make_gym(env_id: str, **kwargs: object) -> Any:
    """Makes an environment of the package `gym`; see `from_gym`."""
    spec, gym = gym_spec(env_id), import_gym()
    code_paths.check_arguments(kwargs, "env.make_kwargs")
    try:
        return gym.make(spec, disable_env_checker=True, **kwargs)
    except gym.error.DependencyNotInstalled as error:
        raise MissingDependencyError(
            f"env.env_id: '{env_id}' of gym needs a package that is not installed: {error}"
        ) from error
    except gym.error.Error as error:
        why = without_secrets(str(error))
        raise ConfigError(f"env.make_kwargs: '{env_id}': {why}") from error
