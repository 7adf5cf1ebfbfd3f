"""Steps per second of native vector envs beside our worker processes, random actions.

HalfCheetah-v5: `sync_subprocess`, EnvPool. Pong with the preprocessing of `env.type=pong`, in
frames of the emulator: `sync_subprocess`, `ale_vector`, EnvPool. The wall clock counts, as workers
and threads use all cores.

python -m benchmarks.native_envs
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from benchmarks.measure import contest, missing
from dicore.config import compile_config
from dicore.data import EnvBatch
from dicore.errors import MissingDependencyError
from dicore.run.env_factory import make_env_manager

ENVS, CALLS, FRAMES = 8, 50, 4
Managers = dict[str, dict[str, Any]]
CHEETAH: Managers = {
    "sync_subprocess": {"env.manager.type": "sync_subprocess"},
    "envpool": {"env.manager.type": "envpool"},
}
PONG: Managers = {
    "sync_subprocess": {"env.manager.type": "sync_subprocess"},
    "ale_vector": {"env.manager.type": "ale_vector"},
    "envpool": {
        "env.manager.type": "envpool",
        "env.manager.task_id": "Pong-v5",
        "env.env_wrapper": [],
        "env.episodic_life": False,
    },
}


def stepper(stack: ExitStack, env: str, overrides: dict[str, Any]) -> Callable[[], None]:
    """Returns a function that steps all ready environments `CALLS` times."""
    config = compile_config(
        {"env": {"type": env, "collector_env_num": ENVS}, "policy": {"type": "random"}},
        overrides=overrides,
    )
    manager = make_env_manager(config.env, "collector", 0)
    stack.callback(manager.close)
    manager.seed(0)
    manager.launch()
    drawn = [[manager.action_space.sample() for _ in range(ENVS)] for _ in range(CALLS)]

    def step() -> None:
        for actions in drawn:
            ready = manager.ready_obs
            manager.step(EnvBatch.of({env_id: actions[env_id] for env_id in ready}))

    return step


def measured(row: str, env: str, managers: Managers, units: int, unit: str) -> None:
    """Prints the rates of the managers whose packages are installed."""
    with ExitStack() as stack:
        found: dict[str, Callable[[], object]] = {}
        for name, overrides in managers.items():
            try:
                found[name] = partial(stepper(stack, env, overrides))
            except MissingDependencyError as error:
                missing(row, f"{name} ({error.message})")
        ours = [name for name in found if name != "sync_subprocess"]
        for name in ours:
            pair = {key: found[key] for key in ("sync_subprocess", name)}
            contest(row, pair, units, unit, against={"sync_subprocess": 1.0}, ours=name)


if __name__ == "__main__":
    measured("HalfCheetah", "halfcheetah", CHEETAH, CALLS * ENVS, "steps/s")
    measured("Pong", "pong", PONG, CALLS * ENVS * FRAMES, "frames/s")
