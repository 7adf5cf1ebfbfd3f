"""The manager of environments of the package EnvPool."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dicore.data import Tree
from dicore.errors import ConfigError, EnvSpaceError, MissingDependencyError, UsageError
from dicore_plugins.env_managers.vector.config import EnvPoolConfig
from dicore_plugins.env_managers.vector.manager import VectorEnvManager
from dicore_plugins.env_managers.vector.pool import NEXT_STEP, VectorPool

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

__all__ = ["EnvPoolManager"]

_SEEDS = 2**31
"""EnvPool's seeds are int32."""


class EnvPoolPool(VectorPool):
    """The environments of one `envpool.make`, each with its own seed; see `VectorPool`."""

    mode, seeds_each = NEXT_STEP, True
    _seeds: Sequence[int] = ()

    @cached_property
    def task(self) -> str:
        """EnvPool's id of the environment.

        Raises:
            UsageError: EnvPool has no environment of that id.
            ConfigError: there are wrappers, or the environment is a changed one.
        """
        section = getattr(self.env_fn[self.ids[0]], "env", None)
        name = self.cfg.task_id or getattr(section, "env_id", None)
        known = _envpool().list_all_envs()
        if name not in known:
            near = next((each for each in known if _game(each) == _game(name)), "…")
            raise UsageError(
                f"env.manager: EnvPool has no environment '{name}'",
                hint=f"set env.manager.task_id={near} (envpool.list_all_envs()), or"
                " env.manager.type=base",
            )
        self.check_alike()
        wanted = getattr(section, "env_id", None) or name
        if _game(wanted) != _game(name):
            raise ConfigError(
                f"env.manager.task_id={name}: the environment of the section is {wanted}",
                hint="leave it out, and set env.env_id",
            )
        if getattr(section, "changes_data", False):
            raise ConfigError(
                f"env.type: EnvPool's {name} has other data than {getattr(section, 'type', name)}",
                hint="set env.manager.type=vector, or env.manager.type=base",
            )
        return str(name)

    @cached_property
    def _options(self) -> dict[str, Any]:
        """What the environment's section asks for, and `make_kwargs`.

        Raises:
            ConfigError: EnvPool's environment has no such option.
        """
        section: Any = getattr(self.env_fn[self.ids[0]], "env", None)  # duck-typed
        given: dict[str, Any] = dict(getattr(section, "make_kwargs", {}))
        if hasattr(section, "arguments") and section.env_id == self.task:
            given = {**section.arguments(), **given}
        given = {name: value for name, value in given.items() if value is not None}
        if not given:
            return dict(self.cfg.make_kwargs)
        with _quiet():
            config = _envpool().make_spec(self.task).config
        found = {name: value for name, value in given.items() if name in config._fields}
        others = given.keys() - found.keys() - {"render_mode", *self.cfg.make_kwargs}
        usual = _defaults(self.task) if others else {}
        for name in sorted(others):
            if name not in usual or given[name] != usual[name]:
                place = "env.make_kwargs" if name in section.make_kwargs else "env"
                raise ConfigError(
                    f"{place}.{name}={given[name]!r}: EnvPool's {self.task} has no such option",
                    hint="remove it, or set env.manager.type=base",
                )
        return {**found, **self.cfg.make_kwargs}

    @cached_property
    def _make(self) -> Callable[[int], object]:
        def make(env_num: int) -> Any:
            kwargs = {"num_threads": self.cfg.num_threads, **self._options}
            with _quiet():
                made = _envpool().make(
                    self.task, env_type="gymnasium", num_envs=env_num, seed=self._seeds, **kwargs
                )
                _ = made.observation_space, made.action_space  # kept by it
            return made

        return make

    def launch(self) -> list[float]:
        """Checks the id; the environments are made when their seeds are known."""
        _ = self.task
        return [float("inf")] * len(self)

    def described(self) -> tuple[str, Tree]:
        """Returns the name for messages; observations are arrays."""
        return f"EnvPool's {self.task}", None

    def space(self, name: str, old_name: str) -> Space:
        """Returns a space of one environment; makes none.

        Raises:
            EnvSpaceError: there is none.
        """
        with _quiet():
            found: Space | None = getattr(self._spec, f"gymnasium_{name}", None)
        if found is None:
            raise EnvSpaceError(f"EnvPool's {self.task} has no {name}")
        return found

    @cached_property
    def _spec(self) -> Any:
        try:
            with _quiet():
                return _envpool().make_spec(self.task, **self._options)
        except (TypeError, ValueError, AssertionError) as error:
            raise UsageError(
                f"env.manager.make_kwargs: EnvPool's {self.task}: {error}",
                hint="see envpool.make_spec(task_id).config for the options",
            ) from error

    def attribute(self, env_id: int, name: str) -> Any:
        """Returns an attribute of EnvPool's object, which `launch` makes.

        Raises:
            AttributeError: there is none.
        """
        if not self.exists(env_id):
            raise AttributeError(f"EnvPool's {self.task} is not made yet; it has no {name}")
        return super().attribute(env_id, name)

    def begin(self, seeds: Sequence[int], options: object, reseed: bool) -> object:
        """Resets all environments; with `reseed` it makes them, as EnvPool has no other way.

        Raises:
            UsageError: there are options.
        """
        if options:
            raise UsageError(f"EnvPool's reset takes no options, got {options}")
        if reseed or not self.exists(0):
            self.close()
            self._seeds = [seed % _SEEDS for seed in seeds]
        return self.vec.reset()[0]


class EnvPoolManager(VectorEnvManager):
    """Steps an environment of EnvPool; see `VectorEnvManager`.

    The first episode of each environment has the manager's seed, the next ones EnvPool's own.
    """

    config_class = EnvPoolConfig
    pool_class = EnvPoolPool


def _game(env_id: object) -> str:
    """Returns the name of an environment without package and version."""
    return str(env_id).rpartition("/")[2].partition("-v")[0]


def _defaults(env_id: str) -> dict[str, Any]:
    """Returns the arguments with which Gymnasium makes an environment if none are given."""
    import gymnasium
    from gymnasium.envs.registration import load_env_creator

    try:
        spec = gymnasium.spec(env_id)
        entry = spec.entry_point
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as an error, one of Box2D's crashes the interpreter
            made = load_env_creator(entry) if isinstance(entry, str) else entry
        parameters = inspect.signature(made).parameters.values() if made is not None else ()
    except (gymnasium.error.Error, ImportError, AttributeError, ValueError):
        return {}
    return {
        **{each.name: each.default for each in parameters if each.default is not each.empty},
        **spec.kwargs,
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """Hides warnings of gymnasium about the bounds of EnvPool's spaces."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*precision lowered", UserWarning)
        yield


def _envpool() -> Any:
    try:
        import envpool
    except ImportError as error:
        raise MissingDependencyError(
            f"the manager envpool needs a package that is not installed: {error}",
            hint="pip install 'dicore-plugins[envpool]'",
        ) from error
    return envpool
