"""Vector envs: where a manager gets one from, and what it returns.

Shapes: N environments, `...` one observation.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from dicore.data import Info, Tree
from dicore.errors import (
    ConfigError,
    DicoreError,
    EnvCreateError,
    EnvError,
    EnvSpaceError,
    UsageError,
)
from dicore_plugins.env_managers.adapt import StatefulLayers
from dicore_plugins.env_managers.env_pool import EnvPool, advice, close_all
from dicore_plugins.env_managers.episodes import shape_of
from dicore_plugins.env_managers.faults import (
    Fault,
    described,
    flag_fault,
    info_fault,
    reward_fault,
)
from dicore_plugins.env_managers.observations import storage_of

if TYPE_CHECKING:
    from dicore.interfaces.env import Env, Space

__all__ = ["FailedEnvError", "VectorPool", "factories"]

_LOG = logging.getLogger("dicore.env")
NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"
"""What a vector env does at the end of an episode; see Gymnasium's AutoresetMode."""


class _Part:
    """A factory of one of the environments of a vector env."""

    def __init__(self, make_vec: Callable[[int], Any]) -> None:
        self.make_vec = make_vec

    def __call__(self) -> object:
        raise EnvCreateError("a vector env makes all its environments together")


def factories(make_vec: Callable[[int], Any], env_num: int) -> list[Callable[[], Any]]:
    """Returns the factories of a manager of a vector env.

    Args:
        make_vec: Takes the number of environments and returns a `gymnasium.vector.VectorEnv`.
        env_num: N.
    """
    return [_Part(make_vec)] * env_num


class VectorPool(EnvPool):
    """One vector env, made on first need.

    Args:
        env_fn: One factory per environment. One with `make_vec(env_num)` makes a vector env; so
            does one whose `env`, a config section, has `vector_env(ctx)` that returns such a
            function (None: it has no vector env).
        cfg: The manager's options.
    """

    @cached_property
    def mode(self) -> str:
        """What the vector env does at the end of an episode."""
        if self._make is None:
            return DISABLED
        given = self.vec.metadata.get("autoreset_mode", NEXT_STEP)
        mode = str(getattr(given, "value", given))
        if mode not in (NEXT_STEP, SAME_STEP, DISABLED):
            raise UsageError(
                f"{type(self.vec).__name__}.metadata['autoreset_mode'] is {given!r}",
                hint="set it to a value of gymnasium.vector.AutoresetMode",
            )
        return mode

    @property
    def seeds_each(self) -> bool:
        """Whether each environment takes its own seed; else the first is that of all."""
        return self._make is None

    @cached_property
    def _make(self) -> Callable[[int], Any] | None:
        """Makes the environment's own vector env; None: Gymnasium's SyncVectorEnv is used."""
        mode = self.cfg.vectorization_mode
        first = self.env_fn[self.ids[0]]
        make = None if mode == "sync" else own_vector_env(first)
        if mode == "vector_entry_point" and make is None:
            raise UsageError(
                f"env.manager: {_label(first)} has no vector env of its own",
                hint="set env.manager.vectorization_mode=sync, or choose another manager"
                " (dicore list env_manager)",
            )
        if make is None and mode is None:
            _LOG.info("%s has no vector env of its own; SyncVectorEnv is used", _label(first))
        if make is not None:
            try:
                self.check_alike()
            except (ConfigError, UsageError) as error:
                if mode is not None:
                    raise
                _LOG.info("%s: SyncVectorEnv is used", error.message)
                return None
        return make

    def check_alike(self) -> None:
        """Checks that the environments can be those of one vector env.

        Raises:
            ConfigError: they have wrappers.
            UsageError: they have different options.
        """
        first = self.env_fn[self.ids[0]]
        section = getattr(first, "env", None)
        other = "vectorization_mode=sync" if "vectorization_mode" in self.cfg else "type=vector"
        sync = f"set env.manager.{other}, or env.manager.type=base"
        wrappers = [
            each.type or type(each).__name__ for each in getattr(section, "env_wrapper", ())
        ]
        if wrappers:
            raise ConfigError(
                f"env.env_wrapper: {', '.join(wrappers)} cannot wrap {_label(first)} in a vector"
                " env, which has no single environments",
                hint=f"{sync}, or remove the wrappers",
            )
        if any(getattr(each, "env", None) != section for each in self.env_fn.values()):
            raise UsageError("the environments of a vector env have different options", hint=sync)

    @cached_property
    def vec(self) -> Any:
        """The vector env; made on first need.

        Raises:
            EnvCreateError: it could not be made.
        """
        try:
            made = self._sync() if self._make is None else self._make(len(self))
        except DicoreError:
            raise
        except (Exception, SystemExit) as error:
            raise EnvCreateError(
                f"the vector env could not be made: {described(error)}", hint=advice(error)
            ) from error
        found = getattr(made, "num_envs", None)
        if found != len(self) or not hasattr(made, "single_observation_space"):
            raise EnvCreateError(
                f"expected a gymnasium.vector.VectorEnv of {len(self)} environments, got {made!r}"
                + (f" of {found}" if found is not None else ""),
                hint="make_vec(env_num) returns the vector env of that many environments",
            )
        return made

    def _sync(self) -> object:
        """Returns a SyncVectorEnv over the single environments."""
        from gymnasium.vector import SyncVectorEnv

        shape: tuple[int, ...] = ()
        with contextlib.suppress(EnvSpaceError):
            shape = shape_of(super().space("reward_space", "rew_space"))
        made = [self._named(env_id, shape) for env_id in self.ids]
        if len({id(each.env) for each in made}) < len(made):
            raise EnvCreateError(
                "environments are the same object",
                hint="each factory must create a new environment per call",
            )
        again = [partial(_given, env) for env in made]
        vec = SyncVectorEnv(again, copy=False, autoreset_mode=DISABLED)
        vec._rewards = np.zeros((len(self), *shape))  # noqa: SLF001 - it has room for scalars only
        return vec

    def _named(self, env_id: int, reward_shape: tuple[int, ...]) -> NamedEnv:
        env = self.env(env_id).env
        if not isinstance(env, gymnasium.Env):
            raise EnvError(
                f"SyncVectorEnv steps gymnasium.Env only, not {type(env).__name__}",
                hint="set env.manager.type=base",
            )
        return NamedEnv(env, env_id, reward_shape)

    def described(self) -> tuple[str, Tree]:
        """Returns the name of the vector env, and the space of its observations."""
        return type(self.vec).__name__, getattr(self.vec, "observation_space", None)

    def exists(self, env_id: int) -> bool:
        """Returns whether the vector env is made."""
        return "vec" in self.__dict__

    def space(self, name: str, old_name: str) -> Space:
        """Returns a space of one environment; makes one, or the vector env if that is its own.

        Raises:
            EnvSpaceError: there is none.
        """
        if self._make is None:
            return super().space(name, old_name)
        vec = self.vec
        space: Space | None = getattr(vec, f"single_{name}", None)
        if space is None and name == "reward_space":
            space = getattr(vec, name, None)
        if space is None:
            raise EnvSpaceError(f"{vec!r} has no single_{name}")
        return space

    def attribute(self, env_id: int, name: str) -> Any:
        """Returns an attribute of an environment, or of the vector env if it has no `get_attr`."""
        if self._make is None:
            return super().attribute(env_id, name)
        get = getattr(self.vec, "get_attr", None)
        return getattr(self.vec, name) if get is None else get(name)[env_id]

    def has(self, env_id: int, name: str) -> bool:
        """Returns whether an environment has a method or an attribute.

        Raises:
            UsageError: the manager would have to replace an environment to record it.
        """
        single, records = self._make is None, name == "enable_save_replay"
        if single and records and not hasattr(self.env(env_id).env.unwrapped, name):
            raise UsageError(
                "the environments of a vector env cannot be recorded",
                hint="set env.manager.type=base, or use record_env in the factories",
            )
        return single and super().has(env_id, name)

    def call(self, env_id: int, name: str, *args: object, **kwargs: object) -> Any:
        """Calls a method of an environment.

        Raises:
            UsageError: the environments of a vector env cannot be called one by one.
        """
        if self._make is None:
            return super().call(env_id, name, *args, **kwargs)
        raise UsageError(
            f"{name} cannot be called on one environment of {type(self.vec).__name__}",
            hint="set env.manager.type=base",
        )

    def begin(self, seeds: Sequence[int], options: Info | None, reseed: bool) -> object:
        """Resets all environments; returns observations [N, ...].

        Args:
            seeds: One per environment; a vector env that resets by itself uses the first.
            options: Passed to `reset`.
            reseed: The sequence of seeds begins; else a vector env may go on with its own.
        """
        seed = list(seeds) if self._make is None else int(seeds[0])
        return self.vec.reset(seed=seed, options=options)[0]

    def begin_some(self, rows: Sequence[int], seeds: Sequence[int], options: Info | None) -> object:
        """Resets some environments of a vector env that never resets by itself."""
        mask = np.zeros(len(self), np.bool_)
        mask[list(rows)] = True
        all_seeds: list[int | None] = [None] * len(self)
        for row, seed in zip(rows, seeds, strict=True):
            all_seeds[row] = seed
        return self.vec.reset(seed=all_seeds, options={**(options or {}), "reset_mask": mask})[0]

    def launch(self) -> list[float]:
        """Makes the vector env, which truncates its episodes itself; returns no time limits."""
        _ = self.vec
        envs = {env_id: self.env(env_id).env for env_id in self.ids} if self._make is None else {}
        self._layers = StatefulLayers(envs)
        return [float("inf")] * len(self)

    def close(self) -> None:
        """Closes the vector env, or all single environments, within 5 s."""
        vec = self.__dict__.pop("vec", None)
        if vec is not None and self._make is not None:
            close_all({0: vec}, self.close_s)
        super().close()


class NamedEnv(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Names the environment in its errors, and checks what SyncVectorEnv would broadcast or cast.

    Args:
        env: The environment.
        env_id: Its id.
        reward_shape: Of its rewards.
    """

    def __init__(self, env: Env, env_id: int, reward_shape: tuple[int, ...] = ()) -> None:
        super().__init__(env)
        self._env_id, self._reward_shape = env_id, reward_shape
        self._storage = storage_of(env.observation_space)

    def reset(self, **kwargs: Any) -> Any:
        try:
            obs, info = self.env.reset(**kwargs)
        except (Exception, SystemExit) as error:
            raise FailedEnvError(self._env_id, error) from error
        self._check(self._storage.fault(obs))
        return obs, info

    def step(self, action: Tree) -> Any:
        try:
            obs, reward, terminated, truncated, info = self.env.step(action)
        except (Exception, SystemExit) as error:
            raise FailedEnvError(self._env_id, error) from error
        self._check(self._storage.fault(obs))
        reward, fault = reward_fault(reward, self._reward_shape)
        flags, odd = flag_fault((terminated, truncated))
        self._check(fault or odd or info_fault(info))
        terminated, truncated = flags
        return obs, reward, terminated, truncated, info

    def _check(self, fault: Fault | None) -> None:
        if fault is not None:
            raise FailedEnvError(self._env_id, fault)


class FailedEnvError(Exception):
    """What one environment of a SyncVectorEnv raised, or what is wrong with its observation.

    Args:
        env_id: The environment.
        cause: The exception, or a `Fault`.
    """

    def __init__(self, env_id: int, cause: BaseException | Fault) -> None:
        super().__init__(env_id, cause)
        self.env_id, self.cause = env_id, cause


def own_vector_env(make: Any) -> Callable[[int], object] | None:
    """Returns what makes the vector env of a factory's environment; None: it has none."""
    if hasattr(make, "make_vec"):
        found: Callable[[int], Any] = make.make_vec
        return found
    vector_env = getattr(getattr(make, "env", None), "vector_env", None)
    return None if vector_env is None else vector_env(make.ctx)


def _label(make: object) -> str:
    section = getattr(make, "env", None)
    name = getattr(section, "env_id", None) or getattr(section, "type", None)
    return f"env '{name}'" if name else "this environment"


def _given(env: Env) -> Env:
    return env
