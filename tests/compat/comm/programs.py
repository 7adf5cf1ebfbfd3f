"""Main functions that the tests run in several processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from dicore.config import bind, compile_config
from dicore.run.env_factory import BuildContext, make_env_manager, spec_of
from dicore.task import Context, OnlineRLContext, task
from dicore_compat.comm import Barrier, ContextExchanger, ModelExchanger, parallel
from dicore_plugins.middleware import (
    OffPolicyLearner,
    StepCollector,
    data_pusher,
    eps_greedy_handler,
    interaction_evaluator,
)

parallel._CONNECT_S = 300.0  # a busy machine begins one process long before another

SMALL = {
    "env": {"type": "cartpole", "collector_env_num": 4, "evaluator_env_num": 4,
            "n_evaluator_episode": 8, "stop_value": 195},
    "policy": {"type": "dqn", "model": {"encoder_hidden_size_list": [64, 64]}, "nstep": 3,
               "learn": {"batch_size": 64, "update_per_collect": 8, "learning_rate": 0.001},
               "collect": {"n_sample": 32},
               "eval": {"evaluator": {"eval_freq": 200}},
               "other": {"eps": {"decay": 4000}}},
}  # fmt: skip


def config(seed: int = 0) -> Any:
    compiled = compile_config({**SMALL, "seed": seed})
    return bind(compiled, spec_of(compiled.env, compiled.seed)).cfg


def note(folder: str, name: str, text: object = "") -> None:
    Path(folder, name).write_text(str(text), encoding="utf-8")


def greet(folder: str, n: int, fails: int = -1) -> None:
    """Greets all others in each step; node `fails` dies once by SIGKILL."""
    me = task.router.node_id
    heard: set[int] = set()
    if me == fails and not Path(folder, "failed").exists():
        note(folder, "failed")
        os.kill(os.getpid(), signal.SIGKILL)
    with task.start(ctx=Context()):
        task.on("greeting", heard.add)
        task.use(lambda ctx: task.emit("greeting", me, only_remote=True))
        task.use(Barrier(n, timeout=300))
        task.run(max_step=3)  # who has passed two barriers has heard all
        note(folder, f"heard_{me}", f"{sorted(heard)} {sorted(task.labels)}")


def pass_barriers(folder: str, n: int, steps: int) -> None:
    """Notes each step between two barriers."""

    def step(ctx: Any) -> None:
        time.sleep(0.02 * task.router.node_id)
        with Path(folder, "steps").open("a", encoding="utf-8") as file:
            file.write(f"{ctx.total_step}\n")

    with task.start(ctx=Context()):
        task.use(step)
        task.use(Barrier(n, timeout=300))
        task.run(max_step=steps)


def raise_in_two(folder: str) -> None:
    """Node 1 fails; node 0 would wait for ever."""
    if task.router.node_id == 1:
        raise ValueError("bad luck in node 1")
    time.sleep(600)


def raise_in_listener(folder: str) -> None:
    """A listener of node 1 fails on an event of node 0."""

    def fail(*args: object) -> None:
        raise ValueError("a listener failed")

    with task.start(ctx=Context()):
        if task.router.node_id == 1:
            task.on("event", fail)
        task.use(Barrier(2, timeout=300))
        task.use(lambda ctx: task.emit("event", ctx.total_step, only_remote=True))
        task.use(lambda ctx: time.sleep(0.01))
        task.run(max_step=1000)


def train(folder: str, max_step: int = 2000, dies: int = -1) -> None:
    """Trains DQN on CartPole: node 0 learns and evaluates, the others collect."""
    cfg = config()
    me = task.router.node_id
    with task.start(ctx=OnlineRLContext()):
        roles = ("LEARNER", "EVALUATOR", "FETCHER") if me == 0 else ("COLLECTOR",)
        for role in roles:
            task.add_role(getattr(task.role, role))
        policy = cfg.policy.build(BuildContext(spec_of(cfg.env, 0), seed=cfg.seed))
        exchanger = ModelExchanger(policy.collect_mode)
        task.use(ContextExchanger(skip_n_iter=1)).use(exchanger)
        versions: list[int] = []
        if me == 0:
            learn_here(cfg, policy, folder)
        else:
            collect_here(cfg, policy, me, folder, dies)
            task.use(lambda ctx: versions.append(exchanger.version))
        task.run(max_step=max_step)
        note(folder, f"versions_{me}", versions)
        note(folder, f"result_{me}", f"{task.ctx.env_step} {task.ctx.last_eval_value}")


def learn_here(cfg: Any, policy: Any, folder: str) -> None:
    buffer = cfg.policy.other.replay_buffer.build(None)
    evaluator = make_env_manager(cfg.env, "evaluator", cfg.seed)
    task.use(interaction_evaluator(cfg, policy.eval_mode, evaluator))
    task.use(data_pusher(cfg, buffer))
    task.use(OffPolicyLearner(cfg, policy.learn_mode, buffer))


def collect_here(cfg: Any, policy: Any, me: int, folder: str, dies: int) -> None:
    envs = make_env_manager(cfg.env, "collector", cfg.seed + me)
    task.use(eps_greedy_handler(cfg))
    task.use(StepCollector(cfg, policy.collect_mode, envs))

    def die(ctx: Any) -> None:
        if me == dies and ctx.total_step == 20 and not Path(folder, "failed").exists():
            note(folder, "failed")
            os.kill(os.getpid(), signal.SIGKILL)

    task.use(die)
