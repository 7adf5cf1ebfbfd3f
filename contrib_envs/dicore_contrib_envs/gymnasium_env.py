"""Gymnasium environments by id."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable
from typing import Any, Self

import attrs

from dicore.config.schema import REQUIRED, frozen, option
from dicore.config.sections import EnvConfig
from dicore.errors import ConfigError, MissingDependencyError


@frozen(kw_only=True)
class GymnasiumConfig(EnvConfig):
    """Any Gymnasium environment by id, including third-party ones."""

    env_id: str = option(REQUIRED, "Gymnasium environment id, e.g. CartPole-v1 or module:Id")
    make_kwargs: dict[str, Any] = option({}, "keyword arguments of gymnasium.make")

    @classmethod
    def knows(cls, env_id: str) -> bool:
        """Returns whether this id is registered, in any version."""
        import gymnasium

        return _spec(env_id) is not None or _base(env_id) in map(_base, gymnasium.registry)

    def from_spec(self) -> dict[str, Any]:
        """Returns the registered reward threshold as `stop_value`.

        Raises:
            ConfigError: the id is not registered.
        """
        spec = _spec(self.env_id)
        if spec is None:
            raise ConfigError(f"env.env_id: {_unknown(self.env_id)}")
        threshold = spec.reward_threshold
        return {} if threshold is None else {"stop_value": float(threshold)}

    def create_collector_env_cfg(self) -> list[Self]:
        """Returns the config of each collector environment."""
        return [self] * self.collector_env_num

    def create_evaluator_env_cfg(self) -> list[Self]:
        """Returns the config of each evaluator environment."""
        return [self] * self.evaluator_env_num

    def with_pictures(self) -> Self:
        """Returns this config with rendering enabled, for videos."""
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        if not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame renders without a display
        return attrs.evolve(self, make_kwargs={**self.make_kwargs, "render_mode": "rgb_array"})

    def vector_env(self, ctx: Any) -> Callable[[int], Any] | None:
        """Returns what makes this environment's own vector env, of N environments; None: no such.

        See `dicore_plugins.env_managers.VectorEnvManager`.
        """
        import gymnasium

        if getattr(_spec(self.env_id), "vector_entry_point", None) is None:
            return None
        return lambda env_num: gymnasium.make_vec(
            self.env_id,
            env_num,
            vectorization_mode="vector_entry_point",
            **self.make_kwargs,
        )

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Makes one environment.

        Raises:
            ConfigError: the id is not registered, or its version was removed.
            MissingDependencyError: a package that it needs is not installed.
        """
        import gymnasium
        from gymnasium.error import DependencyNotInstalled, Error

        if _spec(self.env_id) is None:
            raise ConfigError(f"env.env_id: {_unknown(self.env_id)}")
        try:
            with warnings.catch_warnings():
                # from importing Box2D; as an error (-W error) it crashes the interpreter
                warnings.filterwarnings("ignore", "builtin type [Ss]wig", DeprecationWarning)
                return gymnasium.make(self.env_id, **self.make_kwargs)
        except DependencyNotInstalled as error:
            raise MissingDependencyError(
                f"env.env_id: '{self.env_id}' needs a package that is not installed: {error}"
            ) from error
        except Error as error:
            raise ConfigError(f"env.make_kwargs: '{self.env_id}': {error}") from error


def _spec(env_id: str) -> Any:
    """Returns an id's registration, or None; `module:Id` imports the module first."""
    import gymnasium

    module, colon, name = env_id.rpartition(":")
    try:
        if colon:
            importlib.import_module(module)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about versions; `make` warns again
            return gymnasium.spec(name)
    except (gymnasium.error.Error, ModuleNotFoundError):
        return None


def _unknown(env_id: str) -> str:
    return f"gymnasium has no '{env_id}'; {_nearest(env_id)}"


def _base(env_id: str) -> str:
    """Returns an id without its version."""
    name, dash, version = env_id.rpartition("-v")
    return name if dash and version.isdecimal() else env_id


def _nearest(env_id: str) -> str:
    """Returns a suggestion: another version, or a similar id."""
    import difflib

    import gymnasium

    versions = [each for each in gymnasium.registry if _base(each) == _base(env_id)]
    if versions:
        return f"did you mean '{max(versions, key=_version)}'?"
    folded = {each.casefold(): each for each in gymnasium.registry}
    close = difflib.get_close_matches(env_id.casefold(), folded, 1)
    if close:
        return f"did you mean '{folded[close[0]]}'?"
    module, colon, _ = env_id.rpartition(":")
    if colon:
        return f"check that '{module}' is installed and registers the id"
    return "install the package that registers it"


def _version(env_id: str) -> int:
    version = env_id.rpartition("-v")[2]
    return int(version) if version.isdecimal() else -1
