"""Helpers of the checks of env managers: scripted environments, and playing them.

Shapes: N environments.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dicore.errors import EnvError, EnvStateError, NonFiniteError
from dicore.interfaces.env_manager import IEnvManager
from dicore.testing.compare import copied
from dicore.testing.scripted_env import ScriptedEnv
from dicore.testing.suite import Suite, skip

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["ManagerChecks", "action_of", "count_of", "envs", "failure", "lines", "wait_for_all"]

FAILS_S = 20.0
"""Seconds in which a planted failure shows, also if environments answer at their own pace."""
Steps = dict[int, list[dict[str, Any]]]
"""The steps of each environment."""


class ManagerChecks(Suite):
    """Base class of the checks of env managers."""

    def make(
        self, env_fn: Sequence[Callable[[], object]], options: Mapping[str, Any] | None = None
    ) -> Any:
        """Returns a manager (`IEnvManager`) that is not launched.

        Args:
            env_fn: One factory per environment; they pickle.
            options: `auto_reset`, `episode_num`; with workers or deadlines `restart_budget`,
                `step_timeout`.
        """
        return self.registered.build(options, env_fn=list(env_fn))

    def needs(self, *capabilities: str) -> frozenset[str]:
        """Skips a check of a manager that declares none of them; returns those it declares."""
        manager = self.make(envs(1))
        declared: frozenset[str] = getattr(manager, "capabilities", frozenset())
        manager.close()
        if not declared.intersection(capabilities):
            skip(f"it does not declare '{capabilities[0]}'")
        return declared

    def launched(self, env_fn: Sequence[Callable[[], Env]]) -> closing[Any]:
        """Returns a launched manager that raises the errors of its environments."""
        manager = self.make(env_fn)
        if {"workers", "deadlines"} & set(getattr(manager, "capabilities", ())):
            manager.close()
            manager = self.make(env_fn, {"restart_budget": 0})
        manager.launch()
        wait_for_all(manager)
        return closing(manager)

    def play(self, manager: IEnvManager, count: int, *, launch: bool = True) -> Steps:
        """Steps every environment `count` times with fixed actions; returns the steps."""
        if launch and manager.closed:
            manager.launch()
        found: Steps = {env_id: [] for env_id in range(manager.env_num)}
        single = "step_one" in getattr(manager, "capabilities", ())  # else all that are ready
        before: dict[int, Any] = {}
        while any(len(steps) < count for steps in found.values()):
            ready = manager.ready_obs
            act = [i for i in ready if len(found[i]) < count or not single]
            before |= {env_id: copied(ready[env_id]) for env_id in act}
            answer = manager.step({each: action_of(each, len(found[each])) for each in act})
            for env_id in answer:
                step = answer[env_id]
                found[env_id].append(
                    {
                        "obs": before[env_id],
                        "next_obs": copied(step.obs),
                        "reward": copied(step.reward),
                        "terminated": bool(step.terminated),
                        "truncated": bool(step.truncated),
                        "info": dict(step.info),
                    }
                )
        return {env_id: steps[:count] for env_id, steps in found.items()}


def envs(count: int, **options: Any) -> list[Callable[[], Env]]:
    """Returns factories of scripted environments, tagged by index."""
    return [partial(ScriptedEnv, tag, **options) for tag in range(count)]


def action_of(env_id: int, number: int) -> int:
    """Returns the action of an environment's n-th step."""
    return (env_id + number) % 3


def wait_for_all(manager: IEnvManager) -> set[int]:
    """Returns the ready ids; waits for the pending timesteps of asynchronous managers."""
    while len(ready := set(manager.ready_obs)) < manager.env_num:
        if "lockstep" in manager.capabilities:
            break
        try:
            manager.step({})
        except EnvStateError:  # none is pending: the others wait for a reset
            break
    return ready


def failure(manager: IEnvManager) -> Any:
    """Steps until an exception is raised and returns it; None: all answered six times."""
    answered = dict.fromkeys(range(manager.env_num), 0)
    until = time.monotonic() + FAILS_S
    while min(answered.values()) < 6 and time.monotonic() < until:
        try:
            for env_id in manager.step(dict.fromkeys(manager.ready_obs, 1)):
                answered[env_id] += 1
        except (EnvError, NonFiniteError) as error:
            return error
    return None


def lines(journal: Path) -> list[str]:
    """Returns the journal of the environments."""
    return journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []


def count_of(journal: Path, word: str = "") -> int:
    """Counts the lines of a journal that contain a word."""
    return sum(word in line for line in lines(journal))
