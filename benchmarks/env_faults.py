"""Training while workers are killed, and managers that are created and closed again and again.

python -m benchmarks.env_faults                    # 200,000 env steps, 100 managers of each type
python -m benchmarks.env_faults 50000 20           # fewer of both
python -m benchmarks.env_faults 200000 0 async_subprocess   # one manager, no leak check

DQN is trained on 8 environments in worker processes, one of which is killed by SIGKILL every
2 seconds. Each environment writes what it does to a file of its own, and the samples name
environment, episode and step: the episodes without an end in the samples must be those that the
killed workers were running and no others. SIGTERM ends a training early, and what it did is judged:

timeout 600 python -m benchmarks.env_faults 200000 0
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import psutil
from gymnasium import spaces

ENVS, EVERY_S, WARM_UP = 8, 2.0, 0.25
RESET, STEP, END = range(3)
_RECORD, _BYTES = "<4i", 16


class Placed(gymnasium.Env[Any, Any]):
    """Observations are float32 [3]: env id, number of the episode in this environment, step.

    Every reset and step is appended to a file as four int32 before it returns: process, episode,
    step, and RESET, STEP or END.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, env_id: int, folder: str) -> None:
        self.env_id, self.pid = env_id, os.getpid()
        self._file = os.open(f"{folder}/{env_id}", os.O_RDWR | os.O_APPEND | os.O_CREAT)
        size = os.fstat(self._file).st_size
        last = os.pread(self._file, _BYTES, size - _BYTES) if size else bytes(_BYTES)
        self.episode, self.count = struct.unpack(_RECORD, last)[1], 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode, self.count = self.episode + 1, 0
        self.length = 20 + int(self.np_random.integers(30))
        self._write(RESET)
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        over = self.count >= self.length
        self._write(END if over else STEP)
        return self._obs(), 1.0, over, False, {}

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _write(self, what: int) -> None:
        os.write(self._file, struct.pack(_RECORD, self.pid, self.episode, self.count, what))

    def _obs(self) -> Any:
        return np.array([self.env_id, self.episode, self.count], np.float32)


class Killer(threading.Thread):
    """Kills a random worker from time to time; `killed` has the process of each kill."""

    def __init__(self, manager: Any) -> None:
        super().__init__(daemon=True)
        self.manager = manager
        self.killed: list[int] = []
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
                self.killed.append(pid)


class Parent:
    """What the training sees, in files, so that its memory stays flat.

    `acted` has env id and episode of each action, `samples` env id, episode, step before the
    action, and whether the episode ended.
    """

    def __init__(self, folder: str) -> None:
        self.acted, self.samples = Path(folder, "acted"), Path(folder, "samples")

    def watch(self, mode: Any) -> Any:
        """Records the observations that a collect mode acts on."""
        forward = mode.forward

        def recorded(obs: Any, **options: Any) -> Any:
            self._add(self.acted, obs.value[:, :2])
            return forward(obs, **options)

        return mode._replace(forward=recorded)

    def see(self, data: Any) -> None:
        """Records samples; raises if one is not of its environment, or skips a step."""
        obs, after = data["obs"].astype(np.int32), data["next_obs"].astype(np.int32)
        follows = (after[:, :2] == obs[:, :2]).all(1) & (after[:, 2] == obs[:, 2] + 1)
        if not (follows & (obs[:, 0] == data["env_id"])).all():
            raise AssertionError("a sample joins observations of two episodes")
        self._add(self.samples, np.column_stack([obs, data["end"]]))

    def _add(self, path: Path, rows: Any) -> None:
        with path.open("ab") as file:
            file.write(np.asarray(rows, np.int32).tobytes())

    def found(self) -> tuple[Any, Any]:
        """Returns both files as int32 [actions, 2] and [samples, 4]."""
        acted, samples = (np.fromfile(path, np.int32) for path in (self.acted, self.samples))
        return acted.reshape(-1, 2), samples.reshape(-1, 4)


class Worked(NamedTuple):
    """Episodes (env id, number) by what the environments wrote.

    Args:
        lengths: Steps of those that ended.
        running: A killed worker had begun and not ended them.
        unanswered: They ended in the last step that a killed worker wrote, of which nobody knows
            whether the answer arrived.
        open: The same of the workers that are left.
        stopped: A worker had begun and not ended them, and nobody killed it.
    """

    lengths: dict[tuple[int, int], int]
    running: set[tuple[int, int]]
    unanswered: set[tuple[int, int]]
    open: set[tuple[int, int]]
    stopped: set[tuple[int, int]]


def worked(records: Mapping[int, Any], killed: Iterable[int]) -> Worked:
    """Sorts the episodes of int32 [n, 4] by env id; `killed` are processes."""
    said, dead = Worked({}, set(), set(), set(), set()), set(killed)
    for env_id, rows in records.items():
        latest = rows[-1][0]
        for pid, its in groupby(rows.tolist(), lambda row: row[0]):
            own = list(its)
            steps = [row for row in own if row[3] != RESET]
            said.lengths.update({(env_id, row[1]): row[2] for row in steps if row[3] == END})
            alive = pid == latest and pid not in dead
            if own[-1][3] != END:
                into = said.running if pid in dead else said.open if alive else said.stopped
                into.add((env_id, own[-1][1]))
            if steps and steps[-1][3] == END and (alive or pid in dead):
                (said.open if alive else said.unanswered).add((env_id, steps[-1][1]))
    return said


def complete(samples: Any) -> tuple[dict[tuple[int, int], int], list[str]]:
    """Returns the lengths of the episodes that have an end, and what is wrong with samples.

    The samples of an episode begin at step 0, and none is missing or there twice.
    """
    order = np.lexsort(samples.T[[2, 1, 0]])
    lengths, wrong = {}, []
    for key, its in groupby(samples[order].tolist(), lambda row: (row[0], row[1])):
        rows = list(its)
        if [row[2] for row in rows] != list(range(len(rows))):
            wrong.append(f"steps of episode {key}: {[row[2] for row in rows]}")
        if any(row[3] for row in rows[:-1]):
            wrong.append(f"episode {key} goes on after its end")
        if rows[-1][3]:
            lengths[key] = len(rows)
    return lengths, wrong


def judged(said: Worked, acted: Any, samples: Any, restarts: list[int]) -> dict[str, Any]:
    """Compares what workers wrote with what the training saw; see the module."""
    lengths, wrong = complete(samples)
    seen = {(int(env_id), int(number)) for env_id, number in np.unique(acted, axis=0)}
    dropped = seen - lengths.keys() - said.open
    lost = said.unanswered - lengths.keys()
    expected = (said.running | lost) & seen
    of = Counter(env_id for env_id, _ in dropped)
    wrong += [f"episode {key} was dropped" for key in sorted(dropped - expected)]
    wrong += [f"episode {key} was not dropped" for key in sorted(expected - dropped)]
    sure = said.lengths.keys() - said.unanswered - said.open
    wrong += [f"episode {key} has no end" for key in sorted(sure - lengths.keys())]
    wrong += [
        f"episode {key} has {count} of {said.lengths.get(key)} steps"
        for key, count in lengths.items() if said.lengths.get(key) != count
    ]  # fmt: skip
    if [of[env_id] for env_id in range(len(restarts))] != restarts:
        wrong.append(f"the manager says that it dropped {restarts}")
    return {
        "episodes_complete": len(lengths),
        "episodes_of_killed": len(expected),
        "episodes_dropped": len(dropped),
        "dropped_by_env": restarts,
        "of_these_ended_unanswered": len(lost),
        "killed_before_the_first_action": len(said.running - seen),
        "exactly_those": not wrong,
        "wrong": wrong[:10],
    }


def memory() -> float:
    """Returns the memory of this process in MB."""
    gc.collect()
    return psutil.Process().memory_info().rss / 2**20


def train(name: str, env_steps: int) -> dict[str, Any]:
    from dicore.config import bind, compile_config
    from dicore.run.env_factory import spec_of

    # without the actions of the last 20,000 steps, which fill memory only up to then
    options = {
        "type": name, "restart_budget": 10**6, "max_retry": 10**6, "retry_waiting_time": 0.0,
        "record_actions": False,
    }  # fmt: skip
    source = {
        "env": {"type": "cartpole", "collector_env_num": ENVS, "manager": options},
        "policy": {"type": "dqn", "collect": {"n_sample": 64},
                   "other": {"replay_buffer": {"replay_buffer_size": 5000}}},
    }  # fmt: skip
    compiled = compile_config(source)
    cfg = bind(compiled, spec_of(compiled.env, 0)).cfg
    with tempfile.TemporaryDirectory() as folder:
        makes = [partial(Placed, i, folder) for i in range(ENVS)]
        manager = cfg.env.manager.build(None, env_fn=makes)
        parent = Parent(folder)
        found, killed, restarts = watched(cfg, manager, env_steps, parent)
        files = {i: np.fromfile(f"{folder}/{i}", np.int32).reshape(-1, 4) for i in range(ENVS)}
        return {**found, **judged(worked(files, killed), *parent.found(), restarts)}


def watched(
    cfg: Any, manager: Any, env_steps: int, parent: Parent
) -> tuple[dict[str, Any], list[int], list[int]]:
    """Trains; returns figures, the killed processes, and the restarts of each environment."""
    from dicore_plugins.collectors import SampleCollector
    from dicore_plugins.models.dqn.model import DQN
    from dicore_plugins.policies import DQNPolicy

    manager.seed(0)
    policy = DQNPolicy({}, model=DQN(3, 2, (32,)))
    collector = SampleCollector({}, manager, parent.watch(policy.collect_mode))
    buffer = cfg.policy.other.replay_buffer.build(None)
    killer = Killer(manager)
    killer.start()
    at: list[tuple[int, float]] = []
    begun, updates = time.monotonic(), 0
    signal.signal(signal.SIGTERM, lambda *_: killer.stopped.set())
    while collector.envstep < env_steps and not killer.stopped.is_set():
        collect(collector, parent, buffer)
        policy.learn_mode.forward(buffer.sample_batch(64, 0))
        updates += 1
        if not at or collector.envstep - at[-1][0] > env_steps / 20:
            at.append((collector.envstep, memory()))
    killer.stopped.set()
    killer.join()
    took = time.monotonic() - begun
    for _ in range(4):  # a worker that was killed last is found
        collect(collector, parent, buffer)
    restarts = list(manager.state_dict()["restarts"])
    collector.close()
    steady = [each for each in at if each[0] > WARM_UP * env_steps]
    slope = np.polyfit(*np.array(steady).T, 1)[0] * 1e5 if len(steady) > 2 else 0.0
    found = {
        "name": f"kill_workers/{type(manager).__name__}",
        "env_steps": collector.envstep,
        "updates": updates,
        "kills": len(killer.killed),
        "memory_MB_per_100k_steps": round(float(slope), 3),
        "env_steps_per_s": round(collector.envstep / took),
    }
    return found, killer.killed, restarts


def collect(collector: Any, parent: Parent, buffer: Any) -> None:
    """Collects samples, records them and pushes them."""
    from dicore.data import Batch

    # lockstep collectors drop what they collect beyond n_sample, which would look like a cut
    data = collector.collect_batch(n_sample=64, drop_extra=False, policy_kwargs={"eps": 0.5})
    parent.see(data)
    marks = ("end", "env_id")
    buffer.push(Batch({key: each for key, each in data.items() if key not in marks}))


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

    compiled = compile_config({"env": {"type": "cartpole", "manager": name}, "policy": "dqn"})
    counts = []
    with tempfile.TemporaryDirectory() as folder:
        makes = [partial(Placed, i, folder) for i in range(4)]
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
