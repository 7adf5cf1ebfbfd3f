"""Modules by the dotted paths that they had: they are imported with a warning until dicore 0.3.

`policies.dqn.policy` was a module of a folder for one algorithm, and is `policies.value.dqn` now;
`policies.dqn.config` is `policies.value.dqn_config`. Others are in another distribution: the stub
of their package says in which.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

from dicore.deprecation import deprecated
from dicore_plugins.lazy import comes_with, homes

__all__ = ["FOLDERS", "MODULES", "former_path", "spec_of"]

FOLDERS = {
    "models.acer": "models.actor_critic.acer",
    "models.bco": "models.imitation.bco",
    "models.dt": "models.imitation.dt",
    "models.ebm": "models.imitation.ebm",
    "models.ppg": "models.actor_critic.ppg",
    "models.vac": "models.actor_critic.vac",
    "policies.a2c": "policies.actor_critic.a2c",
    "policies.acer": "policies.actor_critic.acer",
    "policies.actor_critic": "policies.actor_critic.base",
    "policies.awac": "policies.offline.awac",
    "policies.bc": "policies.imitation.bc",
    "policies.bco": "policies.imitation.bco",
    "policies.bcq": "policies.offline.bcq",
    "policies.bdq": "policies.value.bdq",
    "policies.c51": "policies.value.c51",
    "policies.continuous_q": "policies.continuous.base",
    "policies.cql": "policies.offline.cql",
    "policies.crossq": "policies.continuous.crossq",
    "policies.d4pg": "policies.continuous.d4pg",
    "policies.demonstrations": "policies.imitation.demonstrations",
    "policies.discrete_sac": "policies.continuous.discrete_sac",
    "policies.dqfd": "policies.imitation.dqfd",
    "policies.dqn": "policies.value.dqn",
    "policies.dt": "policies.offline.dt",
    "policies.edac": "policies.offline.edac",
    "policies.expert": "policies.imitation.expert",
    "policies.fqf": "policies.value.fqf",
    "policies.ibc": "policies.imitation.ibc",
    "policies.impala": "policies.actor_critic.impala",
    "policies.iql": "policies.offline.iql",
    "policies.iqn": "policies.value.iqn",
    "policies.mbpo": "policies.continuous.mbpo",
    "policies.mdqn": "policies.value.mdqn",
    "policies.paddpg": "policies.continuous.paddpg",
    "policies.pdqn": "policies.continuous.pdqn",
    "policies.pg": "policies.actor_critic.pg",
    "policies.ppg": "policies.actor_critic.ppg",
    "policies.ppo": "policies.actor_critic.ppo",
    "policies.ppo_offpolicy": "policies.actor_critic.ppo_offpolicy",
    "policies.pqn": "policies.value.pqn",
    "policies.qrdqn": "policies.value.qrdqn",
    "policies.r2d2": "policies.value.r2d2",
    "policies.r2d3": "policies.imitation.r2d3",
    "policies.rainbow": "policies.value.rainbow",
    "policies.rbc": "policies.imitation.rbc",
    "policies.sac": "policies.continuous.sac",
    "policies.sqil": "policies.imitation.sqil",
    "policies.sql": "policies.value.sql",
    "policies.sqn": "policies.value.sqn",
    "policies.td3": "policies.continuous.td3",
    "policies.td3_bc": "policies.offline.td3_bc",
    "policies.tqc": "policies.continuous.tqc",
}
"""Folders of one algorithm or network, and the module that took the place of each."""
MODULES = {
    "hooks.checkpoint": "hooks.standard",
    "hooks.log_show": "hooks.standard",
    "model_wrappers.sample": "model_wrappers.base",
    "policies.bcq.discrete": "policies.offline.discrete_bcq",
    "policies.continuous_q.held_noise": "policies.continuous.held_noise",
    "policies.cql.discrete": "policies.offline.discrete_cql",
    "policies.dqn.distributional": "policies.value.distributional",
    "policies.dqn.variants": "policies.value.dqn_variants",
    "policies.dt.history": "policies.offline.dt_history",
    "policies.offline_options": "policies.offline.options",
}
"""Other modules."""
_ROOT = "dicore_plugins."

_TOOLS = ("importlib", "pkgutil", "unittest.mock", "contextlib")
"""Modules that import what somebody else asks for."""


def former_path(path: str) -> str | None:
    """Returns the dotted path of the module that had a path formerly; None: none had it."""
    name = path.removeprefix(_ROOT)
    folder, _, module = name.rpartition(".")
    place = MODULES.get(name)
    if place is None and module in ("policy", "model", "config") and folder in FOLDERS:
        place = FOLDERS[folder] + ("_config" if module == "config" else "")
    return _ROOT + place if place else next((at for at, home in _moved(name) if at == home), None)


def _moved(name: str) -> Iterator[tuple[str, str]]:
    """Yields where a module may be in another distribution, with the modules that are there.

    The stub of its package names them; see `lazy`.
    """
    package, _, rest = name.partition(".")
    for home in homes(f"{_ROOT}{package}").values() if rest not in ("", package) else ():
        root = home.partition(".")[0]
        for place in (f"{root}.{package}.{rest}", f"{root}.{rest}"):
            if not home.startswith(_ROOT) and f"{home}.".startswith(f"{place}."):
                yield place, home


def spec_of(path: str) -> ModuleSpec | None:
    """Returns how to import a module by the path that it had, or the folder it was in."""
    name, is_module = path.removeprefix(_ROOT), former_path(path) is not None
    if not is_module and name not in FOLDERS and not any(_moved(name)):
        return None
    return ModuleSpec(path, _Former(), is_package=not is_module)


class _Former(Loader):
    """Puts the module in its present place under its former path; a folder stays empty."""

    def exec_module(self, module: ModuleType) -> None:
        """Imports the module, with a warning."""
        place = former_path(module.__name__)
        if place is not None:
            deprecated(module.__name__, instead=place, since="0.1", stacklevel=_frames_to_caller())
            try:
                sys.modules[module.__name__] = import_module(place)
            except ModuleNotFoundError as error:
                if error.name != place.partition(".")[0]:
                    raise
                raise comes_with(module.__name__, error.name) from None


def _frames_to_caller() -> int:
    """Returns the `stacklevel`, in `exec_module`, of the line that asks for the module.

    `warnings` does not count the frames of the import system; those of other tools are ours.
    """
    level, frame = 2, sys._getframe(2)  # noqa: SLF001 - `inspect` is slow
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if name in _TOOLS:
            level += 1
        elif not name.startswith("importlib._bootstrap"):
            break
        frame = frame.f_back
    return level
