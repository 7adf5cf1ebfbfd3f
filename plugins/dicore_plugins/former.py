"""Modules by the dotted paths that they had: they are imported with a warning until dicore 0.3.

`policies.dqn.policy` was a module of a folder for one algorithm, and is `policies.value.dqn` now;
`policies.dqn.config` is `policies.value.dqn_config`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

from dicore.deprecation import deprecated

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


def former_path(path: str) -> str | None:
    """Returns the dotted path of the module that had a path formerly; None: none had it."""
    name = path.removeprefix(_ROOT)
    folder, _, module = name.rpartition(".")
    place = MODULES.get(name)
    if place is None and module in ("policy", "model", "config") and folder in FOLDERS:
        place = FOLDERS[folder] + ("_config" if module == "config" else "")
    return None if place is None else _ROOT + place


def spec_of(path: str) -> ModuleSpec | None:
    """Returns how to import a module by the path that it had, or the folder it was in."""
    if former_path(path) is None and path.removeprefix(_ROOT) not in FOLDERS:
        return None
    return ModuleSpec(path, _Former(), is_package=former_path(path) is None)


class _Former(Loader):
    """Puts the module in its present place under its former path; a folder stays empty."""

    def exec_module(self, module: ModuleType) -> None:
        """Imports the module, with a warning."""
        place = former_path(module.__name__)
        if place is not None:
            deprecated(module.__name__, instead=place, since="0.1", stacklevel=2)
            sys.modules[module.__name__] = import_module(place)
