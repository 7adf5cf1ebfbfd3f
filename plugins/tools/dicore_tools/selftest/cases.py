"""Fault cases of env managers: what goes wrong, and what a manager has to make of it.

`python -m dicore_tools.selftest.cases MANAGER FAULT…` runs cases of one manager and prints a JSON
line for each.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import psutil

from dicore.errors import ActionError, ConfigError, DicoreError, EnvStateError, UsageError
from dicore.testing.component import Component
from dicore.testing.faulty_env import FAULTS, FaultyEnv

if TYPE_CHECKING:
    from dicore.data import Tree
    from dicore.interfaces.env_manager import IEnvManager

__all__ = ["CASES", "run_case"]

LIMIT_S, CLOSE_S, PLAY_S = 1.0, 6.0, 8.0
CASES: Final[dict[str, str]] = {
    **FAULTS,
    "bad_action": "an action is not in the action space",
}
"""Descriptions of the cases, by name."""
_WAITS = ("hangs", "reset_hangs")
_HARMLESS = ("", "lock_info", "reset_raises", "reset_hangs", "close_raises", "close_hangs")
"""A manager may return all steps of these as they are, or reset again."""


class FailedCaseError(Exception):
    """A manager did not do what it has to."""


def expect(holds: object, text: str) -> None:
    if not holds:
        raise FailedCaseError(text)


def run_case(component: Component, name: str) -> dict[str, object]:
    """Runs one case.

    Returns:
        `status` (`ok`, `failed`, `skipped`), `text`, and `seconds`.
    """
    begun = time.monotonic()
    try:
        status, text = "ok", _run(component, name)
    except SkippedCaseError as why:
        status, text = "skipped", str(why)
    except FailedCaseError as why:
        status, text = "failed", str(why)
    except BaseException as error:  # whatever a manager raises is the result
        status, text = "failed", f"{type(error).__name__}: {error}"
    text = " ".join(text.split())
    return {"status": status, "text": text, "seconds": round(time.monotonic() - begun, 2)}


class SkippedCaseError(Exception):
    """The manager does not declare what the case needs."""


def _run(component: Component, name: str) -> str:
    capabilities = _capabilities(component)
    limited = bool({"deadlines", "workers"} & capabilities)
    if name == "killed" and "workers" not in capabilities:
        raise SkippedCaseError("its environments run in this process")
    if name in _WAITS and not limited:
        raise SkippedCaseError("it cannot interrupt environments, which run in this process")
    limits = {"step_timeout": LIMIT_S, "reset_timeout": LIMIT_S} if limited else {}
    if name == "bad_action":
        return _refuses_an_action(component)
    with tempfile.TemporaryDirectory(prefix="dicore-") as folder:
        mark = str(Path(folder) / "gone-wrong")
        with _opened(component, name, mark, {"restart_budget": 3, **limits}) as manager:
            abnormal = _play(manager)
        text = abnormal[0] if abnormal else "it goes on"
        if name not in _HARMLESS:
            expect(abnormal, "the failed step was not reported")
            text = abnormal[0]
        if name not in _HARMLESS and name not in _WAITS:
            Path(mark).unlink(missing_ok=True)
            text = _raises(component, name, mark, limits)
    return text


def _capabilities(component: Component) -> frozenset[str]:
    manager = component.build({}, env_fn=[FaultyEnv])
    try:
        found: frozenset[str] = manager.capabilities
        return found
    finally:
        manager.close()


@contextlib.contextmanager
def _opened(
    component: Component, name: str, mark: str, options: Mapping[str, Any]
) -> Iterator[Any]:
    """Launches a manager of two environments, of which the second goes wrong; checks its close."""
    mode = name if name in FAULTS else ""
    makes = [FaultyEnv, partial(FaultyEnv, mode, 1, mark=mark)]
    manager = component.build(options, env_fn=makes)
    try:
        manager.seed(0)
        try:
            manager.launch()
        except (UsageError, ConfigError) as error:  # it steps other environments only
            raise SkippedCaseError(error.message) from None
        pids = set(manager.worker_pids().values())
        yield manager
    finally:
        begun = time.monotonic()
        manager.close()
        took = time.monotonic() - begun
    expect(took < CLOSE_S, f"close() took {took:.1f} s")
    alive = [pid for pid in pids if psutil.pid_exists(pid)]
    expect(not alive, f"after close() worker processes are left: {alive}")


def _play(manager: IEnvManager) -> list[str]:
    """Steps until both environments went on after the fault; returns what abnormal steps said."""
    abnormal: list[str] = []
    good, until = [0, 0], time.monotonic() + PLAY_S
    while time.monotonic() < until:
        answer = manager.step(dict.fromkeys(manager.ready_obs, 1))
        for env_id in answer:
            step = answer[env_id]
            _check_row(env_id, step.obs)
            if step.info.get("abnormal"):
                expect(step.done, "an abnormal step does not end its episode")
                abnormal.append(str(step.info.get("error", "abnormal")))
                continue
            expect(float(step.reward) == 1.0, f"env {env_id}: reward {step.reward}, not 1")
            good[env_id] += 1
        if min(good) > 2 * 20 + 5:
            return abnormal
    raise FailedCaseError(f"in {PLAY_S:g} s the environments made {good} good steps")


def _check_row(env_id: int, obs: Tree) -> None:
    right = isinstance(obs, np.ndarray) and obs.shape == (3,) and np.isfinite(obs).all()
    expect(right and obs[0] == env_id, f"env {env_id}: observation {obs!r}")


def _raises(component: Component, name: str, mark: str, limits: Mapping[str, Any]) -> str:
    """Plays without a restart budget; returns the error, which has to name the environment."""
    error: DicoreError | None = None
    with _opened(component, name, mark, {"restart_budget": 0, **limits}) as manager:
        try:
            _play(manager)
        except DicoreError as raised:
            error = raised
    if error is None:
        raise FailedCaseError("no error was raised when the restart budget was used up")
    text = f"{type(error).__name__}: {error.message}"
    expect("env 1" in error.message, f"the error does not name env 1: {text}")
    return text


def _refuses_an_action(component: Component) -> str:
    with _opened(component, "", "", {}) as manager:
        try:
            manager.step({0: 1, 1: 7})
        except ActionError as error:
            text = f"{type(error).__name__}: {error.message}"
        else:
            raise FailedCaseError("action 7 of Discrete(2) was accepted")
        ready = manager.ready_obs
        with contextlib.suppress(EnvStateError):
            while len(ready) < 2:
                manager.step({})
                ready = manager.ready_obs
        expect([int(ready[each][1]) for each in ready] == [0, 0], "an environment was stepped")
        _play(manager)
    return text


def main(arguments: Iterable[str]) -> None:
    import dicore_registry

    logging.getLogger("dicore").addHandler(logging.NullHandler())
    logging.getLogger("dicore").propagate = False
    manager, *names = arguments
    registry = dicore_registry.default()
    component = Component(registry.find("env_manager", manager), registry)
    for name in names:
        line = {"manager": manager, "fault": name, **run_case(component, name)}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
