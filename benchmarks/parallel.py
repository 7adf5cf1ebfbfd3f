"""Parallel training: throughput by number of collectors, the learner's wait, and the data path.

python -m benchmarks.parallel                  all figures, one JSON line each
python -m benchmarks.parallel collectors       1, 2, 4, 8 collectors, environments wait 5 ms
python -m benchmarks.parallel computing        two cores beside serial, environments compute 1 ms
python -m benchmarks.parallel idle             what the learner waits while four collectors keep up
python -m benchmarks.parallel data weights start replace
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from dicore.config import bind, compile_config
from dicore.run.env_factory import spec_of
from dicore_dist import ParallelParts, RayRuntime
from dicore_plugins.middleware.learn import without_origin
from dicore_plugins.pipelines.training import Parts

ENVS = '''
import time

import gymnasium
import numpy as np


class Waits(gymnasium.Env):
    """Waits 5 ms in each step; an observation has the given number of float32."""

    size, pause = 4, 5e-3

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(-1, 1, (self.size,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.obs = np.zeros(self.size, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.obs, {}

    def step(self, action):
        self.spend()
        return self.obs, 1.0, False, False, {}

    def spend(self):
        time.sleep(self.pause)


class Computes(Waits):
    """Computes for 1 ms in each step."""

    def spend(self):
        end = time.perf_counter() + 1e-3
        while time.perf_counter() < end:
            pass


class Large(Waits):
    """Has observations of 1 MiB and takes no time."""

    size, pause = 1 << 18, 0.0

    def spend(self):
        pass
'''


def config(env: str, collectors: int, **collect: Any) -> dict[str, Any]:
    """Returns a config of DQN with a small network, without a warm-up."""
    return {
        "env": {"type": env, "collector_env_num": 1, "evaluator_env_num": 1,
                "n_evaluator_episode": 1, "stop_value": float("inf")},
        "policy": {"type": "dqn", "model": {"encoder_hidden_size_list": [64]},
                   "learn": {"batch_size": 32, "update_per_collect": 4},
                   "collect": {"n_sample": 32, "random_collect_size": 0, **collect},
                   "eval": {"evaluator": {"max_episode_steps": 1, "eval_freq": 10**9}},
                   "other": {"replay_buffer": {"replay_buffer_size": 10_000}}},
        "pipeline": {"type": "parallel", "logger": [], "final_eval": False,
                     "system": {"collector_num": collectors, "heartbeat_timeout": 60.0}},
    }  # fmt: skip


class Place:
    """Stands for a run that only has a folder, and neither logs nor saves anything."""

    def __init__(self, folder: str) -> None:
        self.folder = SimpleNamespace(log=Path(folder))
        self.device, self.learner_hooks, self.log = "cpu", (), self

    def log_scalars(self, *args: Any, **options: Any) -> None:
        """Logs nothing."""

    log_text = save_checkpoint = log_scalars

    def register(self, *args: Any, **options: Any) -> None:
        """Saves nothing."""


@contextmanager
def parts_of(made: dict[str, Any]) -> Iterator[Parts]:
    """Yields the parts of a run, without a log."""
    compiled = compile_config(made)
    kind = ParallelParts if compiled.pipeline.type == "parallel" else Parts
    with tempfile.TemporaryDirectory() as folder:
        place: Any = Place(folder)
        parts = kind(bind(compiled, spec_of(compiled.env, 0)).cfg, place)
        parts._log = None  # noqa: SLF001 - nothing is logged
        yield parts
        parts.close()


def rate(env: str, collectors: int, seconds: float = 6.0) -> tuple[float, float]:
    """Returns env steps per second, and the share of the time that the learner waits."""
    with parts_of(config(env, collectors)) as parts:
        group = parts.collector
        for _ in range(2 * collectors):
            group.collect_batch(n_sample=32, policy_kwargs={"eps": 0.1})
        steps, waited, begin = group.envstep, group.waited, time.perf_counter()
        version = 0
        while time.perf_counter() - begin < seconds:
            version += 1
            group.collect_batch(n_sample=32, train_iter=version, policy_kwargs={"eps": 0.1})
        spent = time.perf_counter() - begin
        return (group.envstep - steps) / spent, (group.waited - waited) / spent


def collectors(file: str) -> None:
    """Efficiency from 1 to 8 collectors whose environments wait 5 ms."""
    rates = {count: rate(f"{file}:Waits", count)[0] for count in (1, 2, 4, 8)}
    efficiency = {count: round(found / (count * rates[1]), 3) for count, found in rates.items()}
    say("collectors", env_steps_per_s=round_all(rates), efficiency=efficiency, target=0.9)


def training(made: dict[str, Any], seconds: float = 8.0) -> tuple[float, float]:
    """Trains; returns env steps per second, and the share of the time spent on getting samples."""
    updates, size = (made["policy"]["learn"][key] for key in ("update_per_collect", "batch_size"))
    with parts_of(made) as parts:
        collector, buffer, learner = parts.collector, parts.buffer, parts.learner
        spent = {"collect": 0.0}

        def step() -> None:
            begin = time.perf_counter()
            kwargs = {"policy_kwargs": {"eps": 0.1}, "train_iter": learner.train_iter}
            batch = collector.collect_batch(n_sample=32, **kwargs)
            spent["collect"] += time.perf_counter() - begin
            buffer.push(without_origin(batch))
            for _ in range(updates):
                learner.train(buffer.sample_batch(size))

        for _ in range(16):
            step()
        spent["collect"], steps, begin = 0.0, collector.envstep, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            step()
        whole = time.perf_counter() - begin
        return (collector.envstep - steps) / whole, spent["collect"] / whole


def computing(file: str) -> None:
    """Training with two collectors beside serial training, environments compute 1 ms per step."""
    rates: dict[str, list[float]] = {"serial": [], "parallel": []}
    for _ in range(3):
        for name, found in rates.items():
            made = config(f"{file}:Computes", 2)
            if name == "serial":
                made["env"]["collector_env_num"] = 2
                made["pipeline"] = {"type": "serial", "logger": []}
            found.append(training(made)[0])
    ratio = statistics.median(b / a for a, b in zip(*rates.values(), strict=True))
    say("computing", env_steps_per_s=round_all(rates), ratio=round(ratio, 3), target=1.6)


def idle(file: str) -> None:
    """Share of the time that the learner spends on getting samples while collectors keep up."""
    made = config(f"{file}:Waits", 4)
    made["policy"]["learn"]["update_per_collect"] = 256
    steps, share = training(made)
    say("idle", env_steps_per_s=round(steps, 1), share=round(share, 4), target=0.05)


def data(file: str) -> None:
    """MB per second from one collector into the learner, with observations of 1 MiB."""
    made = config(f"{file}:Large", 1)
    made["policy"]["model"] = {"encoder_hidden_size_list": [1]}
    with parts_of(made) as parts:
        group, sizes, spent = parts.collector, 0, 0.0
        for turn in range(8):
            begin = time.perf_counter()
            batch = group.collect_batch(n_sample=8, policy_kwargs={"eps": 1.0})
            if turn > 2:
                spent += time.perf_counter() - begin
                sizes += sum(np.asarray(each).nbytes for each in batch.columns.values())
    say("data", mb_per_s=round(sizes / spent / 1e6, 1), target=200)


def weights(file: str) -> None:
    """Milliseconds to publish 10 MB of parameters, and until a process has them."""
    runtime = RayRuntime(cores=1)
    state = {f"layer{index}": np.zeros(250_000, np.float32) for index in range(10)}
    reader = runtime.process(Reader)
    runtime.get(reader.read.remote(state))
    put, read = [], []
    for _ in range(20):
        begin = time.perf_counter()
        address = runtime.put(state)
        put.append(time.perf_counter() - begin)
        runtime.get(reader.read.remote(address))
        read.append(time.perf_counter() - begin)
    runtime.close()
    found = {"publish_ms": statistics.median(put) * 1e3, "read_ms": statistics.median(read) * 1e3}
    say("weights", **round_all(found), target=10)


class Reader:
    """Reads parameters in another process."""

    def read(self, state: dict[str, Any]) -> float:
        """Touches every layer."""
        return float(sum(each[0] for each in state.values()))


def start(file: str) -> None:
    """Seconds from the start to the first samples of two collectors, Ray included."""
    begin = time.perf_counter()
    with parts_of(config("cartpole", 2)) as parts:
        parts.collector.collect_batch(n_sample=32, policy_kwargs={"eps": 1.0})
        say("start", seconds=round(time.perf_counter() - begin, 2), target=8)


def replace(file: str) -> None:
    """Seconds until a killed collector delivers again."""
    with parts_of(config("cartpole", 2)) as parts:
        group, version = parts.collector, 1
        group.collect_batch(n_sample=32, policy_kwargs={"eps": 1.0})
        first = group.crew.workers[0]
        os.kill(first.process.pid, signal.SIGKILL)
        begin, first.version = time.perf_counter(), -1
        while not first.restarts or first.version < version:
            group.collect_batch(n_sample=32, train_iter=version, policy_kwargs={"eps": 1.0})
        say("replace", seconds=round(time.perf_counter() - begin, 2), target=5)


def round_all(found: dict[Any, Any]) -> dict[Any, Any]:
    """Returns rounded numbers."""
    return {
        key: [round(each, 1) for each in value] if isinstance(value, list) else round(value, 2)
        for key, value in found.items()
    }


def say(figure: str, **facts: Any) -> None:
    """Prints a JSON line."""
    print(json.dumps({"figure": f"parallel_{figure}", **facts}), flush=True)


FIGURES: dict[str, Callable[[str], None]] = {
    "collectors": collectors,
    "computing": computing,
    "idle": idle,
    "data": data,
    "weights": weights,
    "start": start,
    "replace": replace,
}


def main() -> None:
    """Measures the figures named on the command line, or all."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "envs.py"
        file.write_text(ENVS)
        for name in sys.argv[1:] or FIGURES:
            FIGURES[name](str(file))


if __name__ == "__main__":
    main()
