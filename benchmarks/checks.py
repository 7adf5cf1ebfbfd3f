"""What the checks of data cost: a step of 8 environments with them, and without.

python -m benchmarks.checks

Without them, actions are taken as they come, and observations, rewards, flags and infos are stacked
as they are. Each ratio is that of the rates, so that 0.97 means 3 % of a step.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy import array, float32

from benchmarks.measure import contest
from benchmarks.subprocess_envs import IMAGE, Idle
from dicore.data import EnvBatch
from dicore_plugins.env_managers import BaseEnvManager, SyncSubprocessManager, action_check_of
from dicore_plugins.env_managers.env_pool import Results
from dicore_plugins.env_managers.observations import ObsBuffers

ENVS, TURNS, MOST = 8, 997, 0.97


class Unchecked:
    """Replaces the places of a manager in which data is checked."""

    def _checked_actions(self, action: Any) -> tuple[Any, list[int], Any]:
        return action.env_id, self._id_list, action.value["action"]  # type: ignore[attr-defined]

    def _checked_block(
        self, results: Results, actions: Any, id_list: list[int], buffers: ObsBuffers | None
    ) -> tuple[Any, Any, list[Any]]:
        obs, rewards = results[1], results[2]
        if obs.__class__ is not list:
            block = obs if buffers is not None else obs.copy()
        elif buffers is None or (room := buffers.room()) is None:
            block = array(obs)
        else:
            block = np.stack(obs, out=room)
        return block, array(rewards, float32), []

    def _begun(self, env_id: int, seed: int, result: Any, ready: Any) -> None:
        ready[env_id] = result[0]
        self._episodes.begin(env_id, seed)  # type: ignore[attr-defined]
        self._action_log.begin(env_id)  # type: ignore[attr-defined]


class UncheckedBase(Unchecked, BaseEnvManager):
    """The manager `base` without checks."""


class UncheckedSync(Unchecked, SyncSubprocessManager):
    """The manager `sync_subprocess` without checks."""


def cartpole() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1")


def pendulum() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("Pendulum-v1")


def images() -> Idle:
    """Makes an environment that costs nothing beside its 84 x 84 x 4 bytes."""
    return Idle(IMAGE)


def stepper(kind: Any, make: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
    manager = kind([make] * ENVS, options)
    manager.seed(0)
    manager.launch()
    for _ in range(200):  # bounds are compared in the first 100 steps only
        manager.step_into(manager.random_action())
    ids, position = manager.ready_obs.env_id, manager.ready_obs.position
    check = action_check_of(manager.action_space)
    rng = np.random.default_rng(0)
    rows = [EnvBatch(ids, {"action": check.draw(ENVS, rng)}, position) for _ in range(TURNS)]
    turn = 0

    def step() -> None:
        nonlocal turn
        turn = (turn + 1) % TURNS
        manager.step_into(rows[turn])

    return step, manager.close


def race(row: str, kinds: Any, make: Any, clock: Any = time.perf_counter) -> None:
    made = {name: stepper(kind, make, {}) for name, kind in kinds.items()}
    steps = {name: step for name, (step, _) in made.items()}
    try:
        against = {"unchecked": MOST}
        contest(
            row, steps, ENVS, "env steps/s", against=against, rounds=81, round_s=0.04, clock=clock
        )
    finally:
        for _, close in made.values():
            close()


def main() -> None:
    base = {"dicore": BaseEnvManager, "unchecked": UncheckedBase}
    workers = {"dicore": SyncSubprocessManager, "unchecked": UncheckedSync}
    race("checks of base, CartPole", base, cartpole, time.process_time)
    race("checks of base, Pendulum", base, pendulum, time.process_time)
    race("checks of base, images", base, images, time.process_time)
    race("checks of sync_subprocess, CartPole", workers, cartpole)


if __name__ == "__main__":
    main()
