"""Makes environments by id: of PettingZoo and OpenSpiel as parallel ones, Gymnasium, VMAS."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from difflib import get_close_matches
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from dicore.console import without_secrets
from dicore.errors import ConfigError, DicoreError, MissingDependencyError
from dicore_registry import code_paths

if TYPE_CHECKING:
    from types import ModuleType

    from dicore_agents.envs.open_spiel import OpenSpielAsParallel

__all__ = ["make_by_id", "make_game", "make_gymnasium", "scenario"]

_EXTRAS: Final = {
    "mpe2": "mpe", "lbforaging": "lbforaging", "pyspiel": "open-spiel", "rware": "rware",
    "vmas": "vmas",
}  # fmt: skip
"""Extras of this package, by the package that they install."""


def make_by_id(env_id: str, api: str = "auto", **kwargs: object) -> Any:
    """Makes an environment with the API of parallel ones.

    Args:
        env_id: An id of PettingZoo (`classic.tictactoe_v3`), or a module with `parallel_env` or
            `env`, such as `mpe2.simple_spread_v3`.
        api: `parallel`; `aec`, turns; `auto`, the first of both that there is.
        **kwargs: Arguments of its function.

    Raises:
        ConfigError: there is no such environment, not with this API, or it refuses arguments.
        MissingDependencyError: a package that it needs is not installed.
    """
    _need("pettingzoo", "pettingzoo")
    package = env_id.partition(".")[0]
    if package in _EXTRAS:
        _need(package, _EXTRAS[package])
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    code_paths.check_arguments(kwargs, "env.make_kwargs")
    with _errors(env_id, kwargs):
        found = _found(env_id)
        if api == "aec" or (api == "auto" and "parallel" not in found):
            if "aec" in found:
                from dicore_agents.envs.turns import TurnsAsParallel

                return TurnsAsParallel(found["aec"](**kwargs))
            if found:
                raise ConfigError(
                    f"env.api: '{env_id}' is not turn-based; it has a parallel API",
                    hint="drop env.api=aec",
                )
        if api == "parallel" and "aec" in found and "parallel" not in found:
            raise ConfigError(
                f"env.api: '{env_id}' is turn-based; it has no parallel API",
                hint="drop env.api=parallel: a step is then the turn of one agent",
            )
    from dicore_plugins.env_wrappers import make_parallel

    return make_parallel(env_id, **kwargs)


def make_gymnasium(env_id: str, package: str = "", **kwargs: object) -> Any:
    """Makes an environment of Gymnasium.

    Args:
        env_id: Its id, or `module:Id`.
        package: The package that registers the id; "": the module of the id.
        **kwargs: Arguments of `gymnasium.make`.

    Raises:
        ConfigError: there is no such environment, or it refuses the arguments.
        MissingDependencyError: a package that it needs is not installed.
    """
    import gymnasium

    code_paths.check_arguments(kwargs, "env.make_kwargs")
    module, _, name = env_id.rpartition(":")
    if package:
        _need(package, _EXTRAS.get(package, package))
    with _errors(env_id, kwargs):
        if package:
            importlib.import_module(package)
        elif module:
            code_paths.import_module(module, "env.env_id")
        try:
            return gymnasium.make(name, disable_env_checker=True, **kwargs)  # type: ignore[arg-type]
        except gymnasium.error.UnregisteredEnv as error:
            raise ConfigError(
                f"env.env_id: gymnasium has no '{name}': {error}",
                hint="write module:Id for ids that a package registers when it is imported",
            ) from error


def make_game(name: str, **parameters: object) -> OpenSpielAsParallel:
    """Makes a game of OpenSpiel.

    Args:
        name: Its name, perhaps with parameters: `leduc_poker(players=3)`.
        **parameters: Its parameters.

    Raises:
        ConfigError: there is no such game or parameter, or players see no tensors.
        MissingDependencyError: OpenSpiel is not installed.
    """
    _need("pyspiel", _EXTRAS["pyspiel"])
    from dicore_agents.envs.open_spiel import OpenSpielAsParallel

    return OpenSpielAsParallel(name, **parameters)


def scenario(name: str, **options: object) -> Callable[[int, int], Any]:
    """Returns what makes a simulator of VMAS from a number of environments and a seed.

    Args:
        name: Name of the scenario.
        **options: Arguments of `vmas.make_env`, and of the scenario.

    Raises:
        ConfigError: there is no such scenario.
        MissingDependencyError: VMAS is not installed.
    """
    _need("vmas", _EXTRAS["vmas"])
    code_paths.check_arguments(options, "env.make_kwargs")
    with redirect_stderr(StringIO()):  # Gym, which VMAS imports, warns of itself
        import vmas

    known = sorted([*vmas.scenarios, *vmas.debug_scenarios, *vmas.mpe_scenarios])
    if name not in known:
        near = get_close_matches(name, known, 1)
        raise ConfigError(
            f"env.env_id: VMAS has no scenario '{name}'",
            hint=f"did you mean '{near[0]}'?" if near else f"one of {', '.join(known)}",
        )

    def make(env_num: int, seed: int) -> Any:
        with _errors(name, options), warnings.catch_warnings():
            warnings.filterwarnings("error", "Scenario kwargs")  # it would ignore those it lacks
            return vmas.make_env(
                name, env_num, seed=seed, device="cpu", clamp_actions=True,
                terminated_truncated=True, **options,
            )  # fmt: skip

    return make


def _found(env_id: str) -> dict[str, Callable[..., Any]]:
    """Returns what makes an environment, by API; empty: there is no such environment."""
    import pettingzoo

    name = re.sub(r"_v(\d+)$", r"-v\1", env_id.replace(".", "/"))  # as the registry writes it
    found: dict[str, Callable[..., Any]] = {}
    for api, registry in (
        ("parallel", pettingzoo.parallel_registry), ("aec", pettingzoo.aec_registry),
    ):  # fmt: skip
        if name in registry:
            found[api] = lambda api=api, **kwargs: pettingzoo.make(api, name, **kwargs)
    if found:
        return found
    module = _module(f"pettingzoo.{env_id}", importlib.import_module)
    module = module or _module(env_id, code_paths.import_module)
    makers = {"parallel": "parallel_env", "aec": "env"}
    return {api: getattr(module, each) for api, each in makers.items() if hasattr(module, each)}


def _module(name: str, load: Callable[[str], ModuleType]) -> ModuleType | None:
    try:
        return load(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            return None
        raise


def _need(package: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise MissingDependencyError(
            f"env.env_id: needs the package '{package}'",
            hint=f"pip install 'dicore-agents[{extra}]'",
        )


@contextmanager
def _errors(env_id: str, kwargs: Mapping[str, object]) -> Iterator[None]:
    """Tells refused arguments and missing packages as errors of the config."""
    try:
        yield
    except (TypeError, UserWarning) as error:
        why = without_secrets(str(error))
        raise ConfigError(f"env.make_kwargs: '{env_id}': {why}") from error
    except DicoreError:
        raise
    except Exception as error:
        if not isinstance(error, ImportError) and type(error).__name__ != "FailedToImport":
            if not kwargs:
                raise
            last = traceback.extract_tb(error.__traceback__)[-1]
            why = without_secrets(f"{kwargs}: {type(error).__name__} {error}".strip())
            raise ConfigError(
                f"env.make_kwargs: '{env_id}' cannot be made with {why}"
                f" ({last.filename}:{last.lineno}, {last.line})",
                hint="drop or change what the line does not allow",
            ) from error
        cause = error.__cause__ or error
        hint = "pip install 'dicore-agents[classic]'" if env_id.startswith("classic") else ""
        raise MissingDependencyError(
            f"env.env_id: '{env_id}' needs a package that is not installed: {cause}", hint=hint
        ) from error
