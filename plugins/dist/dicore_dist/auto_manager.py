"""The env manager that a training chooses: native where equal, else by the cost of a step."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from statistics import median
from typing import Any, Final

import attrs

from dicore.config.schema import fields_of, frozen
from dicore.config.sections import EnvConfig, ManagerConfig
from dicore.errors import DicoreError
from dicore.run.env_factory import make_env_manager
from dicore_plugins.env_managers.base.config import BaseManagerConfig
from dicore_plugins.named import section_of
from dicore_registry import default

__all__ = ["AutoManagerConfig"]

_BASE, _WORKERS = "base", "sync_subprocess"
_PAYS_S: Final = 50e-6
"""Cost of a step from which on worker processes gain more than their messages take."""
_PROBE_S: Final = 0.5
"""How long steps are measured, after the first few."""


@frozen(kw_only=True)
class AutoManagerConfig(BaseManagerConfig):
    """Steps environments by the manager that the training chooses for them; elsewhere by `base`."""

    def names(self) -> tuple[str, ...]:
        """Returns the managers to choose from: the native ones first."""
        return (*(name for name, _ in _natives()), _BASE, _WORKERS)

    def chosen(self, env: EnvConfig, seed: int) -> dict[str, str]:
        """Returns which manager to take for a section (`took`), measured, and why (`why`).

        A native vector env is taken if it has all options that are set, accepts the environment and
        its wrappers, and its config class says by `unlike(env)` that the data are equal.
        """
        from dicore_plugins.env_managers.subprocess.crew import available_cores

        refused = []
        for name, unlike in _natives():
            if not (why := self._unlike(name, unlike, env, seed)):
                equal = "equal to the workers, step by step; a resumed run begins new episodes"
                return {"took": name, "why": equal}
            refused.append(f"{name}: {why}")
        cores, count = available_cores(), env.collector_env_num
        if cores == 1 or count == 1:
            name, why = _BASE, f"{cores} cores, {count} environments"
        else:
            cost = _step_seconds(attrs.evolve(env, manager=self.named(_BASE)), seed)
            name = _WORKERS if cost > _PAYS_S else _BASE
            why = f"a step takes {cost * 1e6:.0f} us, processes pay from {_PAYS_S * 1e6:.0f} us on"
        return {"took": name, "why": "; ".join([why, *refused])}

    def named(self, name: str) -> ManagerConfig:
        """Returns the section of a manager with the options that are set in this one.

        Raises:
            ConfigError: it does not have one of them.
        """
        usual, options = section_of("env_manager", str(self.type)), dict[str, object]()
        for each in fields_of(type(self)):
            if each != "type" and self[each] != usual[each]:
                options[each] = self[each]
        made: Any = section_of("env_manager", {"type": name, **options})
        return made  # type: ignore[no-any-return] # of the kind

    def _unlike(self, name: str, unlike: Any, env: EnvConfig, seed: int) -> str:
        try:
            section = self.named(name)
            manager = make_env_manager(attrs.evolve(env, manager=section), "collector", seed)
            _ = manager.observation_space  # which needs the package, and the environment in it
            manager.close()
        except DicoreError as error:
            return error.message
        return str(unlike(section, env))


def _natives() -> Iterator[tuple[str, Any]]:
    """Yields the managers of vector envs that tell how they differ, and the function that does."""
    registry = default()
    for entry in registry.entries("env_manager"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of names that were renamed
                target = registry.resolve("env_manager", entry.name).target
        except DicoreError:
            continue
        if (unlike := getattr(target, "unlike", None)) is not None:
            yield entry.name, unlike


def _step_seconds(env: EnvConfig, seed: int) -> float:
    """Returns the median seconds of a step, and of the resets that end episodes, of one env."""
    from dicore.run.random import seeded

    with seeded(seed):
        manager: Any = make_env_manager(env, "collector", seed, at_most=1)
        manager.launch()
        seconds, end = list[float](), time.perf_counter() + _PROBE_S
        while len(seconds) < 10 or time.perf_counter() < end:
            action = manager.random_action()
            start = time.perf_counter()
            manager.step(action)
            seconds.append(time.perf_counter() - start)
        manager.close()
    return median(seconds)
