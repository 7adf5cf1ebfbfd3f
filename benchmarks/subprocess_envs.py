"""P3 and P4: environments in worker processes, beside Gymnasium's and Stable-Baselines3's.

python -m benchmarks.subprocess_envs

Also: environments that compute for 1 ms a step, beside the same work in two processes without any
exchange; and environments that sleep for 1 ms, with a worker each.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np

from benchmarks.measure import contest, missing
from dicore.data import EnvBatch
from dicore_plugins.env_managers import SyncSubprocessManager

IMAGE = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
TURNS = 97


class Idle(gymnasium.Env[Any, Any]):
    """Returns one observation, after computing or sleeping for a time.

    Args:
        space: Of observations.
        compute_s: Time of computing.
        sleep_s: Time of sleeping.
    """

    def __init__(self, space: Any = IMAGE, compute_s: float = 0.0, sleep_s: float = 0.0) -> None:
        self.observation_space = space
        self.action_space = gymnasium.spaces.Discrete(2)
        self._obs = space.sample()
        self._loops, self._sleep = int(compute_s * LOOPS), sleep_s

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self._obs, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._loops:
            spend(self._loops)
        if self._sleep:
            time.sleep(self._sleep)
        return self._obs, 0.0, False, False, {}


def spend(loops: int) -> None:
    for _ in range(loops):
        pass


LOOPS = 5e7
"""Iterations of `spend` per second, roughly; the work is the same for all contenders."""


def cartpole() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1")


def actions(count: int) -> Any:
    return np.random.default_rng(0).integers(0, 2, (TURNS, count))


class Stepper:
    """Steps with actions of a table; `close` ends its processes."""

    def __init__(
        self, step: Callable[[Any], object], rows: Any, close: Callable[[], object]
    ) -> None:
        self._step, self._rows, self.close = step, list(rows), close
        self._turn = 0

    def __call__(self) -> None:
        self._turn = (self._turn + 1) % len(self._rows)
        self._step(self._rows[self._turn])


def dicore(make: Callable[[], Any], count: int, **options: Any) -> Stepper:
    manager = SyncSubprocessManager([make] * count, options)
    manager.seed(0)
    manager.launch()
    ids, position = manager.ready_obs.env_id, manager.ready_obs.position
    rows = [EnvBatch(ids, {"action": row}, position) for row in actions(count)]
    return Stepper(manager.step_into, rows, manager.close)


def gymnasium_async(make: Callable[[], Any], count: int) -> Stepper:
    env = gymnasium.vector.AsyncVectorEnv([make] * count, shared_memory=True, copy=False)
    env.reset(seed=0)
    return Stepper(env.step, actions(count), env.close)


def sb3(make: Callable[[], Any], count: int) -> Stepper:
    from stable_baselines3.common.vec_env import SubprocVecEnv

    env = SubprocVecEnv([make] * count)
    env.reset()
    return Stepper(env.step, actions(count), env.close)


def race(row: str, make: Callable[[], Any], count: int, target: float, *peers: Any) -> None:
    """Measures `dicore` and the peers in turn."""
    made: dict[str, Stepper] = {"dicore": dicore(make, count)}
    try:
        made |= {peer.__name__: peer(make, count) for peer in peers}
        contest(
            row,
            made,
            count,
            "env steps/s",
            against={each: target for each in made if each != "dicore"},
        )
    finally:
        for stepper in made.values():
            stepper.close()


def work(count: int, steps: int, start: Any, ready: Any) -> None:
    """Steps environments without any exchange."""
    envs = [Idle(compute_s=0.001) for _ in range(count)]
    while True:
        start.acquire()
        for _ in range(steps):
            for env in envs:
                env.step(0)
        ready.release()


def two_processes(count: int, steps: int) -> Stepper:
    """The work of `count` environments in two processes that tell only when they are through."""
    context = multiprocessing.get_context("fork")
    start, ready = context.Semaphore(0), context.Semaphore(0)
    processes = [
        context.Process(target=work, args=(count // 2, steps, start, ready), daemon=True)
        for _ in range(2)
    ]
    for process in processes:
        process.start()

    def step(_: Any) -> None:
        for _ in processes:
            start.release()
        for _ in processes:
            ready.acquire()

    def close() -> None:
        for process in processes:
            process.kill()

    return Stepper(step, [0], close)


def computing() -> None:
    """8 environments that compute for 1 ms: at least 90 % of two processes without an exchange."""
    steps = 20
    ours = dicore(partial(Idle, compute_s=0.001), 8, envs_per_worker=4)
    limit = two_processes(8, steps)

    def many() -> None:
        for _ in range(steps):
            ours()

    try:
        contest(
            "1 ms of computing", {"dicore": many, "two processes": limit}, 8 * steps,
            "env steps/s", against={"two processes": 0.9},
        )  # fmt: skip
    finally:
        ours.close()
        limit.close()


def sleeping() -> None:
    """8 environments that sleep for 1 ms: at least 90 % of 8 times one of them."""
    one = Idle(sleep_s=0.001)
    ours = dicore(partial(Idle, sleep_s=0.001), 8, envs_per_worker=1)

    def eight_times() -> None:
        one.step(0)

    try:
        contest(
            "1 ms of sleeping", {"dicore": ours, "8 x one": eight_times}, 8, "env steps/s",
            against={"8 x one": 0.9},
        )  # fmt: skip
    finally:
        ours.close()


def main() -> None:
    peers = [gymnasium_async]
    if find_spec("stable_baselines3"):
        peers.append(sb3)
    else:
        missing("P3", "stable-baselines3")
    for count in (8, 64):
        race(f"P3 N={count}", cartpole, count, 3.0, *peers)
    race("P4", Idle, 8, 2.0, gymnasium_async)
    computing()
    sleeping()


if __name__ == "__main__":
    main()
