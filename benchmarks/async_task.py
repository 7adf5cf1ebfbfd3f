"""Async mode: wall clock of a training beside the same training without it.

DQN on environments that wait 1 ms in every step, as environments in other processes or on other
machines do. The number of updates is chosen so that collecting and training cost the same.

    python -m benchmarks.async_task            one JSON line
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from typing import Any

import gymnasium
import torch

from dicore.config import bind, compile_config
from dicore.interfaces.env import EnvSpec
from dicore.run.random import seed_everything
from dicore.task import OnlineRLContext, Task, middleware
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.middleware import (
    OffPolicyLearner,
    StepCollector,
    data_pusher,
    settings_handler,
)
from dicore_plugins.policies import DQNPolicy

CONFIG: dict[str, Any] = {
    "env": {"type": "cartpole", "collector_env_num": 2, "evaluator_env_num": 1,
            "n_evaluator_episode": 1, "stop_value": 500},
    "policy": {"type": "dqn", "model": {"encoder_hidden_size_list": [128, 128]},
               "learn": {"batch_size": 64, "learner": {"hook": []}},
               "collect": {"n_sample": 16}},
}  # fmt: skip


class Waits(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Waits in every step."""

    def step(self, action: Any) -> Any:
        """Steps after a pause."""
        time.sleep(1e-3)
        return self.env.step(action)


def measured(*, async_mode: bool, updates: int, steps: int) -> tuple[float, float, Any]:
    """Runs a training; returns seconds, seconds of updates, and the counters."""
    seed_everything(0)
    env = BaseEnvManager([lambda: Waits(gymnasium.make("CartPole-v1"))] * 2)
    compiled = compile_config(
        CONFIG,
        seed=0,
        overrides=[
            f"exp_name={tempfile.gettempdir()}/x",
            f"policy.learn.update_per_collect={updates}",
        ],
    )
    cfg = bind(compiled, EnvSpec.of(env)).cfg
    policy, buffer_ = DQNPolicy(cfg.policy), NaiveReplayBuffer({})
    learner = OffPolicyLearner(cfg, policy.learn_mode, buffer_)
    spent = 0.0

    @middleware(reads=learner.reads, writes=learner.writes, uses=[learner.learner, buffer_])
    def learn(ctx: Any) -> None:
        nonlocal spent
        begin = time.perf_counter()
        learner(ctx)
        spent += time.perf_counter() - begin

    with Task().start(async_mode=async_mode, ctx=OnlineRLContext()) as task:
        task.use(settings_handler(policy.command_mode))
        task.use(StepCollector(cfg, policy.collect_mode, env)).use(data_pusher(cfg, buffer_))
        task.use(learn).run(max_step=5)
        spent = 0.0
        begin = time.perf_counter()
        task.run(max_step=steps)
        seconds = time.perf_counter() - begin
        ctx: Any = task.ctx
        counters = ctx.env_step, ctx.train_iter
    env.close()
    return seconds, spent, counters


def overhead(*, async_mode: bool, steps: int = 3000) -> float:
    """Returns the microseconds of CPU per middleware and step of a task with empty middleware."""
    empty = [middleware(reads=["env_step"], uses=[])(lambda ctx: None) for _ in range(6)]
    with Task().start(async_mode=async_mode, ctx=OnlineRLContext()) as task:
        for each in empty:
            task.use(each)
        begin = time.process_time()
        task.run(max_step=steps)
        return 1e6 * (time.process_time() - begin) / steps / len(empty)


def main() -> None:
    """Prints one JSON line."""
    torch.set_num_threads(1)
    steps, ratios = 60, []
    whole, training, _ = measured(async_mode=False, updates=10, steps=steps)
    updates = max(round(10 * (whole - training) / training), 1)
    for _ in range(5):
        serial, training, wanted = measured(async_mode=False, updates=updates, steps=steps)
        together, _, found = measured(async_mode=True, updates=updates, steps=steps)
        assert found == wanted, f"counters {found}, without async mode {wanted}"
        ratios.append(together / serial)
    figures = {
        "figure": "async_task", "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(each, 3) for each in ratios], "updates": updates,
        "training_share": round(training / serial, 3),
        "serial_s": round(serial, 3), "async_s": round(together, 3),
        "us_per_middleware": round(overhead(async_mode=False), 2),
        "us_per_middleware_async": round(overhead(async_mode=True), 2),
    }  # fmt: skip
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
