"""P1: the in-process env manager compared with a bare loop and Gymnasium's `SyncVectorEnv`.

python benchmarks/env_manager.py
"""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import numpy as np

from benchmarks.measure import contest
from dicore.data import EnvBatch
from dicore.run.random import episode_seed
from dicore_plugins.env_managers import BaseEnvManager

ENVS, ACTIONS = 8, np.random.default_rng(0).integers(0, 2, (997, 8))


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


def main() -> None:
    contenders = {"dicore": dicore_manager(), "bare loop": bare_loop(), "gymnasium Sync": sync()}
    contest(
        "P1", contenders, ENVS, "env steps/s", against={"bare loop": 0.85, "gymnasium Sync": 1.05}
    )


if __name__ == "__main__":
    main()
