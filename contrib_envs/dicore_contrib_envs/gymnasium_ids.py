"""Ids of Gymnasium's registry: who registers them, what is near to them, what they need."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from dicore.errors import ConfigWarning, EnvCreateError, MissingDependencyError
from dicore_registry import code_paths

__all__ = [
    "OLD_ATARI", "base_of", "how_to_install", "later_of", "namespace_of", "registering",
    "registration", "render_headless", "tell_of_later", "unknown",
]  # fmt: skip

_LOG = logging.getLogger("dicore.env")


def registration(env_id: str, *, need: bool = False) -> Any:
    """Returns an id's registration, or None.

    The module of `module:Id` and the package of `ALE/…` and the like are imported first.

    Args:
        env_id: The id.
        need: Prepare the simulator; raise MissingDependencyError if it is not installed.
    """
    import gymnasium

    module, colon, name = env_id.rpartition(":")
    if OLD_ATARI.fullmatch(name):
        return None
    space = namespace_of(name)
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
                hint=how_to_install(env_id),
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


def unknown(env_id: str, component: str) -> str:
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


def base_of(env_id: str) -> str:
    """Returns an id without its version."""
    name, dash, version = env_id.rpartition("-v")
    return name if dash and version.isdecimal() else env_id


def _nearest(env_id: str) -> str:
    """Returns a suggestion: another version, or a similar id."""
    import difflib

    import gymnasium

    old = OLD_ATARI.fullmatch(env_id)
    if old:
        sticky = " env.repeat_action_probability=0" if old[2] == "4" else ""
        return f"write ALE/{old[1]}-v5{sticky}"
    versions = [each for each in gymnasium.registry if base_of(each) == base_of(env_id)]
    if versions:
        return f"did you mean '{max(versions, key=_version)}'?"
    for file in sorted(Path().glob("*.py")):
        if _registers(file, env_id):
            guarded = "__name__" in file.read_text("utf-8", "replace")
            outside = ", once that stands outside of if __name__ == '__main__'" if guarded else ""
            way = f"dicore --plugin {file} …, or write {file.stem}:{env_id}"
            return f"{file} registers it: {way}{outside}"
    if package := registering(env_id):
        return f"write {package}:{env_id}"
    module, colon, _ = env_id.rpartition(":")
    folded = {each.casefold(): each for each in gymnasium.registry}
    close = difflib.get_close_matches(env_id.casefold(), folded, 1)
    if close:
        return f"did you mean '{folded[close[0]]}'?"
    if colon:
        return f"check that '{module}' is installed and registers the id"
    return "install the package that registers it; if a file does: dicore --plugin FILE.py …"


@cache
def registering(env_id: str) -> str:
    """Returns the installed package that registers an id when it is imported; "" if none does.

    Their files are read, and nothing of them is run.
    """
    name = base_of(env_id)
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
            if _registers(Path(str(dist.locate_file(file))), name):
                return file.parts[0]
    return ""


def _registers(file: Path, name: str) -> bool:
    """Returns whether a file, which is read and not run, seems to register an id."""
    try:
        text = file.read_text("utf-8", "replace")
    except OSError:
        return False
    named = re.search(rf"""["']{re.escape(name)}[-"'{{]""", text)
    return "gymnasium" in text and "register(" in text and named is not None


@cache
def tell_of_later(env_id: str) -> None:
    """Warns once of a version that is not the last one."""
    if later := later_of(env_id):
        warnings.warn(f"{env_id} is out of date: {later} is the last version", ConfigWarning, 3)


def later_of(env_id: str) -> str:
    """Returns the last version of an environment, if that is a later one; else ""."""
    import gymnasium

    versions = [each for each in gymnasium.registry if base_of(each) == base_of(env_id)]
    last = max(versions, key=_version, default="")
    return last if _version(last) > _version(env_id) else ""


def _version(env_id: str) -> int:
    version = env_id.rpartition("-v")[2]
    return int(version) if version.isdecimal() else -1


class Namespace(NamedTuple):
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

        render_headless()  # dm_control chooses its renderer when it is imported
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
    Namespace(("ALE/",), "atari", "ale_py", "atari"),
    Namespace(("MinAtar/",), "minatar", "minatar.gym", "minatar", "register_envs"),
    Namespace(("MiniGrid-", "BabyAI-"), "minigrid", "minigrid", "minigrid"),
    Namespace(("dm_control/",), "dm_control", "shimmy", "dm_control"),
    Namespace(("LunarLander", "BipedalWalker", "CarRacing"), "box2d"),
    Namespace(
        ("Ant-", "HalfCheetah-", "Hopper-", "Humanoid", "InvertedDoublePendulum-",
         "InvertedPendulum-", "Pusher-", "Reacher-", "Swimmer-", "Walker2d-"),
        "mujoco",
    ),
)  # fmt: skip


OLD_ATARI: Final = re.compile(r"(\w+?)(?:-ram)?(?:NoFrameskip|Deterministic)-v(\d)")
"""Ids of before ALE/…, whose repeats of frames and actions are arguments now."""


def namespace_of(env_id: str) -> Namespace | None:
    """Returns the namespace of an id, or None."""
    return next((each for each in _NAMESPACES if env_id.startswith(each.prefixes)), None)


def how_to_install(env_id: str) -> str:
    """Returns the command that installs what an id needs; "" if no extra of this package does."""
    space = namespace_of(env_id.rpartition(":")[2])
    return f"pip install 'dicore-contrib-envs[{space.extra}]'" if space else ""


@cache
def _log_once(text: str) -> None:
    _LOG.info("MuJoCo: %s", text.strip())


def render_headless() -> None:
    """Lets pygame and MuJoCo render without a display; a variable that is set stays as it is."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        return
    # for `dummy`, highway-env draws nothing, into what it observes neither
    driver = "offscreen" if sys.platform == "linux" else "dummy"
    os.environ.setdefault("SDL_VIDEODRIVER", driver)
    if sys.platform == "linux" and "MUJOCO_GL" not in os.environ:
        import ctypes.util

        library = next((name for name in ("EGL", "OSMesa") if ctypes.util.find_library(name)), "")
        if library:
            os.environ["MUJOCO_GL"] = library.lower()
