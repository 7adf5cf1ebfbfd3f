"""Training while workers are killed, and managers that are created and closed again and again.

python -m benchmarks.env_faults                    # 200,000 env steps, 100 managers of each type
python -m benchmarks.env_faults 50000 20           # fewer of both
python -m benchmarks.env_faults 200000 0 async_subprocess   # one manager, no leak check

DQN is trained on 8 environments in worker processes, one of which is killed by SIGKILL every
2 seconds. Observations name environment, episode and step, so that the samples show which episodes
were dropped: those of killed workers and no others.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
from gymnasium import spaces

ENVS, EVERY_S, WARM_UP = 8, 2.0, 0.25


class Placed(gymnasium.Env[Any, Any]):
    """Observations are float32 [3]: env id, a number drawn for the episode, the step."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, env_id: int) -> None:
        self.env_id = env_id

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode, self.count = int(self.np_random.integers(2**22)), 0
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return self._obs(), 1.0, self.count >= 20 + self.episode % 30, False, {}

    def _obs(self) -> Any:
        return np.array([self.env_id, self.episode, self.count], np.float32)


class Killer(threading.Thread):
    """Kills a random worker from time to time; `killed` has the environments of each."""

    def __init__(self, manager: Any) -> None:
        super().__init__(daemon=True)
        self.manager, self.killed = manager, [0] * ENVS
        self.kills = 0
        self.stopped = threading.Event()

    def run(self) -> None:
        choose = random.Random(0)  # noqa: S311
        while not self.stopped.wait(EVERY_S):
            pids = self.manager.worker_pids()
            if pids:
                pid = choose.choice(sorted(set(pids.values())))
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                self.kills += 1
                for env_id in (i for i, each in pids.items() if each == pid):
                    self.killed[env_id] += 1


def broken_chains(last: dict[int, Any], data: Any) -> list[int]:
    """Returns the environments of rows that do not follow the row before, which did not end."""
    broken = []
    for obs, after, end, env_id in zip(
        data["obs"], data["next_obs"], data["end"], data["env_id"].tolist(), strict=True
    ):
        if obs[0] != env_id:
            raise AssertionError(f"a row of environment {env_id} has an observation of {obs[0]}")
        before = last.get(env_id)
        if before is not None and not np.array_equal(before, obs):
            broken.append(env_id)
        if before is None and obs[2] != 0:
            raise AssertionError(f"environment {env_id}: an episode begins at step {obs[2]}")
        last[env_id] = None if end else after.copy()
    return broken


def memory() -> float:
    """Returns the memory of this process in MB."""
    gc.collect()
    return psutil.Process().memory_info().rss / 2**20


def train(name: str, env_steps: int) -> dict[str, Any]:
    from dicore.config import bind, compile_config
    from dicore.run.env_factory import spaces_of

    # without the actions of the last 20,000 steps, which fill memory only up to then
    options = {"type": name, "restart_budget": 10**6, "max_retry": 100, "record_actions": False}
    source = {
        "env": {"type": "cartpole", "collector_env_num": ENVS, "manager": options},
        "policy": {"type": "dqn", "collect": {"n_sample": 64},
                   "other": {"replay_buffer": {"replay_buffer_size": 5000}}},
    }  # fmt: skip
    compiled = compile_config(source)
    cfg = bind(compiled, *spaces_of(compiled.env, 0)).cfg
    manager = cfg.env.manager.build(None, env_fn=[partial(Placed, i) for i in range(ENVS)])
    return watched(cfg, manager, env_steps)


def watched(cfg: Any, manager: Any, env_steps: int) -> dict[str, Any]:
    from dicore.data import Batch
    from dicore_plugins.collectors import SampleCollector
    from dicore_plugins.models.dqn.model import DQN
    from dicore_plugins.policies import DQNPolicy

    manager.seed(0)
    policy = DQNPolicy({}, model=DQN(3, 2, (32,)))
    collector = SampleCollector({}, manager, policy.collect_mode)
    buffer = cfg.policy.other.replay_buffer.build(None)
    killer = Killer(manager)
    killer.start()
    last: dict[int, Any] = {}
    gaps, at, begun, updates = [0] * ENVS, [], time.monotonic(), 0
    while collector.envstep < env_steps:
        # lockstep collectors drop what they collect beyond n_sample, which would look like a cut
        data = collector.collect_batch(
            n_sample=64, drop_extra=False, policy_kwargs={"eps": 0.5}
        )  # fmt: skip
        for env_id in broken_chains(last, data):
            gaps[env_id] += 1
        marks = ("end", "env_id")
        buffer.push(Batch({key: each for key, each in data.items() if key not in marks}))
        policy.learn_mode.forward(buffer.sample_batch(64, 0))
        updates += 1
        if not at or collector.envstep - at[-1][0] > env_steps / 20:
            at.append((collector.envstep, memory()))
    killer.stopped.set()
    killer.join()
    took = time.monotonic() - begun
    for _ in range(4):  # a worker that was killed last is found
        collector.collect_batch(n_sample=64, policy_kwargs={"eps": 0.5})
    restarts = manager.state_dict()["restarts"]
    collector.close()
    steady = [each for each in at if each[0] > WARM_UP * env_steps]
    slope = np.polyfit(*np.array(steady).T, 1)[0] * 1e5 if len(steady) > 2 else 0.0
    return {
        "name": f"kill_workers/{type(manager).__name__}",
        "env_steps": collector.envstep,
        "updates": updates,
        "kills": killer.kills,
        "episodes_of_killed": killer.killed,
        "episodes_dropped": restarts,
        "cut_in_the_data": gaps,
        "exactly_those": restarts == killer.killed
        and all(gap <= kill for gap, kill in zip(gaps, killer.killed, strict=True)),
        "memory_MB_per_100k_steps": round(float(slope), 3),
        "env_steps_per_s": round(collector.envstep / took),
    }


def held() -> Iterator[int]:
    """Yields the numbers of processes, threads, descriptors and shared maps of this process."""
    gc.collect()
    yield len(psutil.Process().children(recursive=True))
    yield threading.active_count()
    yield psutil.Process().num_fds()
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    yield sum("memfd" in line or "/dev/shm" in line for line in maps)  # noqa: S108


def create_and_close(name: str, times: int) -> dict[str, Any]:
    from dicore.config import compile_config

    makes = [partial(Placed, i) for i in range(4)]
    compiled = compile_config({"env": {"type": "cartpole", "manager": name}, "policy": "dqn"})
    counts = []
    for _ in range(times):
        manager = compiled.env.manager.build(None, env_fn=makes)
        manager.launch()
        manager.step(dict.fromkeys(manager.ready_obs, 0))
        manager.close()
        del manager
        counts.append(list(held()))
    first, final = counts[0], counts[-1]
    names = ("processes", "threads", "descriptors", "shared_maps")
    left = {key: new - old for key, new, old in zip(names, final, first, strict=True)}
    return {"name": f"create_and_close/{name}", "times": times, "left": left}


def main() -> int:
    given = sys.argv[1:]
    if {"-h", "--help"} & set(given):
        print(__doc__)
        return 0
    env_steps, times = int(given[0]) if given else 200_000, int(given[1]) if given[1:] else 100
    good = True
    for name in given[2:] or ("sync_subprocess", "async_subprocess"):
        found = train(name, env_steps)
        print(json.dumps(found), flush=True)
        good = good and found["exactly_those"] and found["memory_MB_per_100k_steps"] < 1.0
    for name in ("base", "thread", "sync_subprocess", "async_subprocess") if times else ():
        found = create_and_close(name, times)
        print(json.dumps(found), flush=True)
        good = good and not any(found["left"].values())
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
