"""Gymnasium environments by id, also those of packages that register ids when imported."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from inspect import signature
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Self

import attrs

from dicore.config.schema import REQUIRED, frozen, option
from dicore.config.sections import EnvConfig
from dicore.console import without_secrets
from dicore.errors import (
    ConfigError,
    ConfigWarning,
    EnvCreateError,
    MissingDependencyError,
    UsageError,
)
from dicore.run.env_factory import BuildContext
from dicore_registry import code_paths

_TRUTHS: Final = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_LOG = logging.getLogger("dicore.env")


@frozen(kw_only=True)
class GymnasiumConfig(EnvConfig):
    """Any Gymnasium environment by id, including third-party ones."""

    changes_data: ClassVar[bool] = False
    """Whether `adapt` changes the data, so that no vector env of a package can stand for it."""

    env_id: str = option(REQUIRED, "Gymnasium environment id, e.g. CartPole-v1 or module:Id")
    make_kwargs: dict[str, Any] = option({}, "keyword arguments of gymnasium.make")

    @classmethod
    def knows(cls, env_id: str) -> bool | str:
        """Returns the component for ids of this form, or whether any version is registered."""
        space = _namespace(env_id)
        if space is not None and space.component:
            return space.component
        import gymnasium

        if _OLD_ATARI.fullmatch(env_id):
            return True  # its error names the present id
        found = _spec(env_id) is not None or _base(env_id) in map(_base, gymnasium.registry)
        return found or bool(_registering(env_id))

    def from_spec(self) -> dict[str, Any]:
        """Returns the registered reward threshold as `stop_value`.

        Raises:
            ConfigError: the id is not registered.
        """
        spec = _spec(self.env_id)
        if spec is None:
            raise ConfigError(f"env.env_id: {_unknown(self.env_id, self.type)}")
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
        _render_headless()
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

        native = getattr(_spec(self.env_id), "vector_entry_point", None) is not None
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

        if _spec(self.env_id, need=True) is None:
            raise ConfigError(f"env.env_id: {_unknown(self.env_id, self.type)}")
        code_paths.check_arguments(self.make_kwargs, "env.make_kwargs")
        _refuse_words(self.env_id, self.make_kwargs)
        if parent_process() is None:  # in others it was told where they are started
            _tell_of_later(self.env_id)
        try:
            with warnings.catch_warnings():
                # from importing Box2D; as an error (-W error) it crashes the interpreter
                warnings.filterwarnings("ignore", "builtin type [Ss]wig", DeprecationWarning)
                warnings.filterwarnings("ignore", ".*is out of date", DeprecationWarning)  # told
                made = gymnasium.make(self.env_id, **{**self.arguments(), **self.make_kwargs})
        except (DependencyNotInstalled, ImportError) as error:
            space = _namespace(self.env_id)
            there = space is not None and importlib.util.find_spec(space.extra) is not None
            later = _later(self.env_id) if there else ""
            raise MissingDependencyError(
                f"env.env_id: '{self.env_id}' needs a package that is not installed: {error}",
                hint=f"a later version: {later}" if later else _how_to_install(self.env_id),
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
        modes = getattr(_creator(_spec(self.env_id)), "metadata", {}).get("render_modes", ())
        if wanted is not None and wanted not in modes:
            raise UsageError(
                f"'{self.env_id}' has no render mode {wanted}; it has {', '.join(modes) or 'none'}",
                hint="dicore enjoy shows what has the mode human" if "human" in modes else "",
            )


def _creator(spec: Any) -> Any:
    """Returns the class, or the function, that makes an environment."""
    from gymnasium.envs.registration import load_env_creator

    make = spec.entry_point
    return load_env_creator(make) if isinstance(make, str) else make


def _spec(env_id: str, *, need: bool = False) -> Any:
    """Returns an id's registration, or None.

    The module of `module:Id` and the package of `ALE/…` and the like are imported first.

    Args:
        env_id: The id.
        need: Prepare the simulator; raise MissingDependencyError if it is not installed.
    """
    import gymnasium

    module, colon, name = env_id.rpartition(":")
    if _OLD_ATARI.fullmatch(name):
        return None
    space = _namespace(name)
    try:
        if colon:
            code_paths.import_module(module, "env.env_id")
        if space is not None:
            space.register()
        elif name not in gymnasium.registry:
            _register_by_entry_point(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about versions; `make` warns again
            spec = gymnasium.spec(name)
    except ImportError as error:
        if need and space is not None:
            raise MissingDependencyError(
                f"env.env_id: '{env_id}' needs the package '{space.module}': {error}",
                hint=_how_to_install(env_id),
            ) from error
        return None
    except gymnasium.error.Error:
        return None
    if need and space is not None:
        space.quieten()
    return spec


def _register_by_entry_point(env_id: str) -> None:
    """Lets the package register the ids `NAME/…` that has an entry point NAME of `gymnasium.envs`.

    Gymnasium itself called these functions before its version 1.
    """
    from importlib import metadata

    name, slash, _ = env_id.partition("/")
    for entry in metadata.entry_points(group="gymnasium.envs", name=name) if slash else ():
        code_paths.check(entry.module, "env.env_id")
        try:
            found: Any = entry.load()
            if callable(found):
                found()
        except Exception as error:  # of a stranger's package: any
            raise EnvCreateError(
                f"env.env_id: '{env_id}': the entry point {name} = {entry.value} of gymnasium.envs"
                f" failed: {type(error).__name__}: {error}",
                hint="tell who maintains that package, or name a module that registers the id when"
                " it is imported: MODULE:ID",
            ) from error


def _refuse_words(env_id: str, given: Mapping[str, Any]) -> None:
    """Raises ConfigError for `no` where an environment takes False: as text it would be true."""
    words = {key: each for key, each in given.items() if str(each).lower() in _TRUTHS}
    if not words:
        return
    spec = _spec(env_id)
    made = signature(_creator(spec)).parameters.values()
    defaults = {each.name: each.default for each in made}
    for key, word in words.items():
        if isinstance({**defaults, **spec.kwargs}.get(key), bool):
            raise ConfigError(
                f"env.make_kwargs.{key}: expected true or false, got the text {word!r}",
                hint=f"write env.make_kwargs.{key}={_TRUTHS[word.lower()]}",
            )


def _unknown(env_id: str, component: str) -> str:
    """Returns the message about an unknown id, with a near one."""
    import gymnasium

    own: list[str] = []
    for space in _NAMESPACES:
        if component and component == space.component:  # its ids are not known before
            with contextlib.suppress(ImportError):
                space.register()
            own = [each for each in gymnasium.registry if each.startswith(space.prefixes)]
    meant = next((each for each in own if each.endswith(f"/{env_id}")), "")
    hint = f"did you mean '{meant}'?" if meant else _nearest(env_id)
    return f"gymnasium has no '{env_id}'; {hint}"


def _base(env_id: str) -> str:
    """Returns an id without its version."""
    name, dash, version = env_id.rpartition("-v")
    return name if dash and version.isdecimal() else env_id


def _nearest(env_id: str) -> str:
    """Returns a suggestion: another version, or a similar id."""
    import difflib

    import gymnasium

    old = _OLD_ATARI.fullmatch(env_id)
    if old:
        sticky = " env.repeat_action_probability=0" if old[2] == "4" else ""
        return f"write ALE/{old[1]}-v5{sticky}"
    versions = [each for each in gymnasium.registry if _base(each) == _base(env_id)]
    if versions:
        return f"did you mean '{max(versions, key=_version)}'?"
    if package := _registering(env_id):
        return f"write {package}:{env_id}"
    module, colon, _ = env_id.rpartition(":")
    folded = {each.casefold(): each for each in gymnasium.registry}
    close = difflib.get_close_matches(env_id.casefold(), folded, 1)
    if close:
        return f"did you mean '{folded[close[0]]}'?"
    if colon:
        return f"check that '{module}' is installed and registers the id"
    return "install the package that registers it"


@cache
def _registering(env_id: str) -> str:
    """Returns the installed package that registers an id when it is imported; "" if none does.

    Their files are read, and nothing of them is run.
    """
    name = _base(env_id)
    if ":" in env_id or name == env_id:
        return ""
    from importlib import metadata

    for dist in metadata.distributions():
        needs = [each for each in dist.requires or () if "extra ==" not in each]
        if not any(each.startswith("gymnasium") for each in needs):
            continue
        for file in dist.files or ():
            if file.suffix != ".py" or len(file.parts) > 3 or file.parts[0].startswith("dicore"):
                continue
            with contextlib.suppress(OSError):
                text = Path(str(dist.locate_file(file))).read_text("utf-8", "replace")
                if (
                    "gymnasium" in text
                    and "register(" in text
                    and re.search(rf"""["']{re.escape(name)}[-"'{{]""", text)
                ):
                    return file.parts[0]
    return ""


@cache
def _tell_of_later(env_id: str) -> None:
    """Warns once of a version that is not the last one."""
    if later := _later(env_id):
        warnings.warn(f"{env_id} is out of date: {later} is the last version", ConfigWarning, 3)


def _later(env_id: str) -> str:
    """Returns the last version of an environment, if that is a later one; else ""."""
    import gymnasium

    versions = [each for each in gymnasium.registry if _base(each) == _base(env_id)]
    last = max(versions, key=_version, default="")
    return last if _version(last) > _version(env_id) else ""


def _version(env_id: str) -> int:
    version = env_id.rpartition("-v")[2]
    return int(version) if version.isdecimal() else -1


# ---- packages that bring ids


class _Namespace(NamedTuple):
    """Ids that begin in the same way.

    Args:
        prefixes: Beginnings of the ids.
        extra: Extra of this package that installs what the ids need.
        module: Registers the ids when it is imported; "": gymnasium has them.
        component: Environment component that the ids select; "": the one for any id.
        function: Of the module, registers the ids; "": importing it does.
    """

    prefixes: tuple[str, ...]
    extra: str
    module: str = ""
    component: str = ""
    function: str = ""

    def register(self) -> None:
        """Imports the package that registers the ids."""
        import gymnasium

        there = not self.module or sys.modules.get(self.module)
        if there and (not self.function or self.known(gymnasium.registry)):
            return
        import io

        _render_headless()  # dm_control chooses its renderer when it is imported
        notices = io.StringIO()
        # shimmy imports the old gym if it is there, which writes a notice; glfw misses a display
        with contextlib.redirect_stderr(notices), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(self.module)
            if self.function:
                getattr(module, self.function)()
        if notices.getvalue():
            _LOG.debug("on import of %s: %s", self.module, notices.getvalue().strip())

    def known(self, ids: Iterable[str]) -> bool:
        """Returns whether one of these ids begins as its ids do."""
        return any(each.startswith(self.prefixes) for each in ids)

    def quieten(self) -> None:
        """Keeps the simulator from writing to the terminal.

        MuJoCo would write warnings there and to `MUJOCO_LOG.TXT`; they are logged. Atari's emulator
        would write a banner, and at exit a list of what a frozen garbage collector keeps.
        """
        with contextlib.suppress(ImportError):
            if self.extra in {"mujoco", "dm_control"}:
                import mujoco

                mujoco.set_mju_user_warning(_log_once)
            elif self.extra == "atari":
                import atexit
                import gc

                import ale_py

                ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
                atexit.unregister(gc.unfreeze)
                atexit.register(gc.unfreeze)


_NAMESPACES: Final = (
    _Namespace(("ALE/",), "atari", "ale_py", "atari"),
    _Namespace(("MinAtar/",), "minatar", "minatar.gym", "minatar", "register_envs"),
    _Namespace(("MiniGrid-", "BabyAI-"), "minigrid", "minigrid", "minigrid"),
    _Namespace(("dm_control/",), "dm_control", "shimmy", "dm_control"),
    _Namespace(("LunarLander", "BipedalWalker", "CarRacing"), "box2d"),
    _Namespace(
        ("Ant-", "HalfCheetah-", "Hopper-", "Humanoid", "InvertedDoublePendulum-",
         "InvertedPendulum-", "Pusher-", "Reacher-", "Swimmer-", "Walker2d-"),
        "mujoco",
    ),
)  # fmt: skip


_OLD_ATARI: Final = re.compile(r"(\w+?)(?:-ram)?(?:NoFrameskip|Deterministic)-v(\d)")
"""Ids of before ALE/…, whose repeats of frames and actions are arguments now."""


def _namespace(env_id: str) -> _Namespace | None:
    return next((each for each in _NAMESPACES if env_id.startswith(each.prefixes)), None)


def _how_to_install(env_id: str) -> str:
    """Returns the command that installs what an id needs; "" if no extra of this package does."""
    space = _namespace(env_id.rpartition(":")[2])
    return f"pip install 'dicore-contrib-envs[{space.extra}]'" if space else ""


def _misfit(env_id: str, error: Exception) -> EnvCreateError:
    """Returns the error for a constructor that failed as it does beside a package it does not fit.

    It names the package, its version, and the versions of the packages that it needs.
    """
    import traceback
    from importlib import metadata

    entry = _spec(env_id).entry_point
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
        dist = f" of {packages[0]} {metadata.version(packages[0])}"
        needs = filter(None, (map(_installed, metadata.requires(packages[0]) or ())))
        hint = (
            f"try another version of it, or of what it needs: {', '.join(needs) or 'see its page'}"
        )
    return EnvCreateError(
        f"env.env_id: '{env_id}'{dist} could not be made: {why} ({origin})", hint=hint
    )


def _installed(requirement: str) -> str:
    """Returns a required package with its installed version; "" if it is one of an extra."""
    import re
    from importlib import metadata

    name = re.match(r"[\w.-]+", requirement)
    if name is None or "extra ==" in requirement:
        return ""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return f"{name[0]} {metadata.version(name[0])}"
    return f"{name[0]} (not installed)"


@cache
def _log_once(text: str) -> None:
    _LOG.info("MuJoCo: %s", text.strip())


def _render_headless() -> None:
    """Lets pygame and MuJoCo render without a display; a variable that is set stays as it is."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        return
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    if sys.platform == "linux" and "MUJOCO_GL" not in os.environ:
        import ctypes.util

        library = next((name for name in ("EGL", "OSMesa") if ctypes.util.find_library(name)), "")
        if library:
            os.environ["MUJOCO_GL"] = library.lower()
