"""P1, P2: env managers of this process compared with a bare loop and with Gymnasium.

P1: the manager `base` beside a bare loop over the same envs and Gymnasium's `SyncVectorEnv`.
P2: the manager `vector` beside the native vector env that it steps, 64 envs. Rows in which the
vector env resets an environment are steps of neither.

python benchmarks/env_manager.py
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import gymnasium
import numpy as np

from benchmarks.measure import contest
from dicore.data import EnvBatch
from dicore.run.random import episode_seed
from dicore_plugins.env_managers import BaseEnvManager, VectorEnvManager

ENVS, ACTIONS = 8, np.random.default_rng(0).integers(0, 2, (997, 8))
MANY, MANY_ACTIONS = 64, np.random.default_rng(0).integers(0, 2, (997, 64))
CALLS = 100


def make() -> gymnasium.Env:
    return gymnasium.make("CartPole-v1")


def dicore_manager() -> Callable[[], object]:
    manager = BaseEnvManager([make] * ENVS)
    manager.seed(0)
    manager.launch()
    ids, position = manager.ready_obs.env_id, manager.ready_obs.position
    actions = [EnvBatch(ids, {"action": row}, position) for row in ACTIONS]
    turn = 0

    def step() -> object:
        nonlocal turn
        turn = (turn + 1) % 997
        return manager.step_into(actions[turn])

    return step


def bare_loop() -> Callable[[], object]:
    """Loops over the same envs with np.int64 actions and reseeded episodes, without any checks."""
    envs = [make().unwrapped for _ in range(ENVS)]
    for env_id, env in enumerate(envs):
        env.reset(seed=episode_seed(0, "collector", env_id, 0))
    length, episodes, turn = [0] * ENVS, [0] * ENVS, 0

    def step() -> object:
        nonlocal turn
        turn = (turn + 1) % 997
        obs = [None] * ENVS
        for i, action in enumerate(ACTIONS[turn]):
            obs[i], _, terminated, _, _ = envs[i].step(action)
            length[i] += 1
            if terminated or length[i] >= 500:
                length[i] = 0
                episodes[i] += 1
                obs[i], _ = envs[i].reset(seed=episode_seed(0, "collector", i, episodes[i]))
        return obs

    return step


def sync() -> Callable[[], object]:
    env = gymnasium.vector.SyncVectorEnv([make] * ENVS)
    env.reset(seed=0)
    turn = 0

    def step() -> object:
        nonlocal turn
        turn = (turn + 1) % 997
        return env.step(ACTIONS[turn])

    return step


def native(env_num: int) -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec("CartPole-v1", env_num, vectorization_mode="vector_entry_point")


def vector_manager() -> Callable[[], object]:
    """Makes as many env steps as the vector env does in `CALLS` calls."""
    manager = VectorEnvManager.of(native, MANY)
    manager.seed(0)
    manager.launch()
    turn = left = 0

    def steps() -> None:
        nonlocal turn, left
        left += steps_of_native()
        while left > 0:
            turn = (turn + 1) % 997
            ready = manager.ready_obs
            ids = ready.env_id
            row = MANY_ACTIONS[turn]
            action = row if len(ids) == MANY else row.take(ids)
            left -= len(manager.step_into(EnvBatch(ids, {"action": action})).env_id)

    return steps


@functools.cache
def steps_of_native() -> int:
    """Returns the env steps among the rows of `CALLS` calls of the vector env, on average."""
    env, over, count = native(MANY), np.zeros(MANY, bool), 0
    env.reset(seed=0)
    for turn in range(20 * CALLS):
        count += MANY - int(over.sum())
        _, _, terminated, truncated, _ = env.step(MANY_ACTIONS[turn % 997])
        over = terminated | truncated
    return round(count / 20)


def vector_env() -> Callable[[], object]:
    env = native(MANY)
    env.reset(seed=0)
    turn = 0

    def steps() -> None:
        nonlocal turn
        for _ in range(CALLS):
            turn = (turn + 1) % 997
            env.step(MANY_ACTIONS[turn])

    return steps


def main() -> None:
    contenders = {"dicore": dicore_manager(), "bare loop": bare_loop(), "gymnasium Sync": sync()}
    targets = {"bare loop": 0.85, "gymnasium Sync": 1.05}
    contest("P1", contenders, ENVS, "env steps/s", against=targets, clock=time.process_time)
    contenders = {"dicore": vector_manager(), "gymnasium native": vector_env()}
    units = steps_of_native()
    targets = {"gymnasium native": 0.75}
    contest("P2", contenders, units, "env steps/s", against=targets, clock=time.process_time)


if __name__ == "__main__":
    main()
