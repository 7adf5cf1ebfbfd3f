"""Any environment that gymnasium knows, by its id."""

from __future__ import annotations

import importlib
import os
import warnings
from typing import Any, Self

import attrs

from dicore.config.schema import REQUIRED, frozen, option
from dicore.config.sections import EnvConfig
from dicore.errors import ConfigError, MissingDependencyError


@frozen(kw_only=True)
class GymnasiumConfig(EnvConfig):
    """An environment of gymnasium, or of a package that registers its own there."""

    env_id: str = option(REQUIRED, "id under which gymnasium knows it: CartPole-v1")
    make_kwargs: dict[str, Any] = option({}, "further arguments of gymnasium.make")

    @classmethod
    def knows(cls, env_id: str) -> bool:
        """Says whether gymnasium has this id, in this version or in another."""
        import gymnasium

        return _spec(env_id) is not None or _base(env_id) in map(_base, gymnasium.registry)

    def from_spec(self) -> dict[str, Any]:
        """Returns what the id's registration says: its reward threshold as `stop_value`.

        Raises:
            ConfigError: gymnasium has no such id.
        """
        spec = _spec(self.env_id)
        if spec is None:
            raise ConfigError(f"env.env_id: {_unknown(self.env_id)}")
        threshold = spec.reward_threshold
        return {} if threshold is None else {"stop_value": float(threshold)}

    def create_collector_env_cfg(self) -> list[Self]:
        """Returns the config of each environment that collects."""
        return [self] * self.collector_env_num

    def create_evaluator_env_cfg(self) -> list[Self]:
        """Returns the config of each environment that evaluates."""
        return [self] * self.evaluator_env_num

    def with_pictures(self) -> Self:
        """Returns this config with drawing switched on, for videos."""
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        if not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame needs no screen
        return attrs.evolve(self, make_kwargs={**self.make_kwargs, "render_mode": "rgb_array"})

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Makes one environment.

        Raises:
            ConfigError: gymnasium has no such id, or not any more.
            MissingDependencyError: making it failed for want of a package.
        """
        import gymnasium
        from gymnasium.error import DependencyNotInstalled, Error

        if _spec(self.env_id) is None:
            raise ConfigError(f"env.env_id: {_unknown(self.env_id)}")
        try:
            with warnings.catch_warnings():
                # of Box2D's import; turned into an error (-W error) it crashes the interpreter
                warnings.filterwarnings("ignore", "builtin type [Ss]wig", DeprecationWarning)
                return gymnasium.make(self.env_id, **self.make_kwargs)
        except DependencyNotInstalled as error:
            raise MissingDependencyError(
                f"env.env_id: '{self.env_id}' needs another package: {error}"
            ) from error
        except Error as error:
            raise ConfigError(f"env.make_kwargs: '{self.env_id}': {error}") from error


def _spec(env_id: str) -> Any:
    """Returns an id's registration, or None; `module:Id` imports the module, which registers."""
    import gymnasium

    module, colon, name = env_id.rpartition(":")
    try:
        if colon:
            importlib.import_module(module)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about versions; `make` says it again
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
    """Suggests the version or the spelling that gymnasium has instead."""
    import difflib

    import gymnasium

    versions = [known for known in gymnasium.registry if _base(known) == _base(env_id)]
    if versions:
        return f"did you mean '{max(versions, key=_version)}'?"
    folded = {known.casefold(): known for known in gymnasium.registry}
    close = difflib.get_close_matches(env_id.casefold(), folded, 1)
    if close:
        return f"did you mean '{folded[close[0]]}'?"
    module, colon, _ = env_id.rpartition(":")
    if colon:
        return f"is '{module}' installed, and does it register the id?"
    return "the package that registers it may not be installed"


def _version(env_id: str) -> int:
    version = env_id.rpartition("-v")[2]
    return int(version) if version.isdecimal() else -1
