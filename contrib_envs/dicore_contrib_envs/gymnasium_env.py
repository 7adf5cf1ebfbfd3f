"""Gymnasium environments by id, also those of packages that register ids when imported."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import warnings
from collections.abc import Callable, Mapping
from inspect import signature
from multiprocessing import parent_process
from typing import Any, ClassVar, Final, Self

import attrs

from dicore.config.schema import REQUIRED, frozen, option
from dicore.config.sections import EnvConfig
from dicore.console import without_secrets
from dicore.errors import (
    ConfigError,
    EnvCreateError,
    MissingDependencyError,
    UsageError,
)
from dicore.run.env_factory import BuildContext
from dicore_contrib_envs.gymnasium_ids import (
    OLD_ATARI,
    base_of,
    how_to_install,
    later_of,
    namespace_of,
    registering,
    registration,
    render_headless,
    tell_of_later,
    unknown,
)
from dicore_registry import code_paths

_FITS: Final = {
    "gymnasium-robotics 1.4.2": "; it takes mujoco < 3.12: pip install 'mujoco<3.12' without -c"
}
"""What is known to fit versions of packages."""
_TRUTHS: Final = {"yes": "true", "on": "true", "no": "false", "off": "false"}


@frozen(kw_only=True)
class GymnasiumConfig(EnvConfig):
    """Any Gymnasium environment by id, including third-party ones."""

    changes_data: ClassVar[bool] = False
    """Whether `adapt` changes the data, so that no vector env of a package can stand for it."""

    env_id: str = option(REQUIRED, "Gymnasium environment id, e.g. CartPole-v1 or module:Id")
    make_kwargs: dict[str, Any] = option(
        {},
        "arguments of gymnasium.make; objects such as tables: in a function, -e ./file.py:make",
    )

    @classmethod
    def knows(cls, env_id: str) -> bool | str:
        """Returns the component for ids of this form, or whether any version is registered."""
        space = namespace_of(env_id)
        if space is not None and space.component:
            return space.component
        import gymnasium

        if OLD_ATARI.fullmatch(env_id):
            return True  # its error names the present id
        known = base_of(env_id) in map(base_of, gymnasium.registry)
        return registration(env_id) is not None or known or bool(registering(env_id))

    def from_spec(self) -> dict[str, Any]:
        """Returns the registered reward threshold as `stop_value`.

        Raises:
            ConfigError: the id is not registered.
        """
        spec = registration(self.env_id)
        if spec is None:
            raise ConfigError(f"env.env_id: {unknown(self.env_id, self.type)}")
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
        render_headless()
        return attrs.evolve(self, make_kwargs={**self.make_kwargs, "render_mode": "rgb_array"})

    def arguments(self) -> dict[str, Any]:
        """Returns the options that are keyword arguments of `gymnasium.make`."""
        return {}

    def adapt(self, env: Any) -> Any:
        """Returns the environment that `build` returns, from the one that gymnasium made."""
        return env

    def vector_env(self, ctx: Any) -> Callable[[int], Any] | None:
        """Returns what makes this environment's own vector env, of N environments; None: no such.

        See `dicore_plugins.env_managers.VectorEnvManager`.
        """
        import gymnasium

        native = getattr(registration(self.env_id), "vector_entry_point", None) is not None
        if not native or type(self).adapt is not GymnasiumConfig.adapt:
            return None
        code_paths.check_arguments(self.make_kwargs, "env.make_kwargs")
        return lambda env_num: gymnasium.make_vec(
            self.env_id,
            env_num,
            vectorization_mode="vector_entry_point",
            **{**self.arguments(), **self.make_kwargs},
        )

    def build(self, ctx: BuildContext | None, **parts: object) -> Any:
        """Makes one environment.

        Raises:
            ConfigError: the id is not registered, its version was removed, or an argument is wrong.
            MissingDependencyError: a package that it needs is not installed.
            EnvCreateError: its package does not fit another one.
        """
        import gymnasium
        from gymnasium.error import DependencyNotInstalled, Error

        if registration(self.env_id, need=True) is None:
            raise ConfigError(f"env.env_id: {unknown(self.env_id, self.type)}")
        code_paths.check_arguments(self.make_kwargs, "env.make_kwargs")
        _refuse_words(self.env_id, self.make_kwargs)
        if parent_process() is None:  # in others it was told where they are started
            tell_of_later(self.env_id)
        try:
            with warnings.catch_warnings():
                # from importing Box2D; as an error (-W error) it crashes the interpreter
                warnings.filterwarnings("ignore", "builtin type [Ss]wig", DeprecationWarning)
                warnings.filterwarnings("ignore", ".*is out of date", DeprecationWarning)  # told
                made = gymnasium.make(self.env_id, **{**self.arguments(), **self.make_kwargs})
        except (DependencyNotInstalled, ImportError) as error:
            space = namespace_of(self.env_id)
            there = space is not None and importlib.util.find_spec(space.extra) is not None
            later = later_of(self.env_id) if there else ""
            raise MissingDependencyError(
                f"env.env_id: '{self.env_id}' needs a package that is not installed: {error}",
                hint=f"a later version: {later}" if later else how_to_install(self.env_id),
            ) from error
        except (Error, TypeError) as error:
            why = without_secrets(str(error))  # gymnasium shows all arguments
            raise ConfigError(f"env.make_kwargs: '{self.env_id}': {why}") from error
        except (AssertionError, AttributeError) as error:
            self._refuse_pictures()
            raise _misfit(self.env_id, error) from error
        return self.adapt(made)

    # ---- ids

    def _refuse_pictures(self) -> None:
        """Raises UsageError if a render mode is asked for that the environment does not have."""
        wanted = self.make_kwargs.get("render_mode")
        modes = getattr(_creator(registration(self.env_id)), "metadata", {}).get("render_modes", ())
        if wanted is not None and wanted not in modes:
            raise UsageError(
                f"'{self.env_id}' has no render mode {wanted}; it has {', '.join(modes) or 'none'}",
                hint="its window: dicore enjoy … --show window; for a video, wrap it by a function"
                " of a file, so that render() returns a picture: -e ./file.py:function"
                if "human" in modes
                else "",
            )


def _creator(spec: Any) -> Any:
    """Returns the class, or the function, that makes an environment."""
    from gymnasium.envs.registration import load_env_creator

    make = spec.entry_point
    return load_env_creator(make) if isinstance(make, str) else make


def _refuse_words(env_id: str, given: Mapping[str, Any]) -> None:
    """Raises ConfigError for `no` where an environment takes False: as text it would be true."""
    words = {key: each for key, each in given.items() if str(each).lower() in _TRUTHS}
    if not words:
        return
    spec = registration(env_id)
    made = signature(_creator(spec)).parameters.values()
    defaults = {each.name: each.default for each in made}
    for key, word in words.items():
        if isinstance({**defaults, **spec.kwargs}.get(key), bool):
            raise ConfigError(
                f"env.make_kwargs.{key}: expected true or false, got the text {word!r}",
                hint=f"write env.make_kwargs.{key}={_TRUTHS[word.lower()]}",
            )


def _misfit(env_id: str, error: Exception) -> EnvCreateError:
    """Returns the error for a constructor that failed as it does beside a package it does not fit.

    It names the package, its version, and the versions of the packages that it needs.
    """
    import traceback
    from importlib import metadata

    entry = registration(env_id).entry_point
    module = str(entry) if isinstance(entry, str) else entry.__module__
    packages = metadata.packages_distributions().get(module.partition(":")[0].partition(".")[0], [])
    place = traceback.extract_tb(error.__traceback__)[-1]
    why = f"{type(error).__name__}: {without_secrets(str(error)) or place.line}"
    origin, hint = (
        f"{place.filename}:{place.lineno}, in {place.name}",
        "--debug shows the traceback",
    )
    dist = ""
    if packages:
        found = f"{packages[0]} {metadata.version(packages[0])}"
        dist = f" of {found}"
        hint = _versions(packages[0], f"{why} {origin}") + _FITS.get(found, "")
    return EnvCreateError(
        f"env.env_id: '{env_id}'{dist} could not be made: {why} ({origin})", hint=hint
    )


def _versions(package: str, text: str) -> str:
    """Returns a hint that names what a package needs, or only what a message is about."""
    from importlib import metadata

    needs = [*filter(None, map(_installed, metadata.requires(package) or ()))]
    about = [each for each in needs if each.partition(" ")[0].lower() in text.lower()]
    listed = ", ".join(about or needs) or "see its page"
    return f"try another version of it, or of what it needs: {listed}"


def _installed(requirement: str) -> str:
    """Returns a required package with its installed version; "" if it is one of an extra."""
    from importlib import metadata

    name = re.match(r"[\w.-]+", requirement)
    if name is None or "extra ==" in requirement:
        return ""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return f"{name[0]} {metadata.version(name[0])}"
    return f"{name[0]} (not installed)"
