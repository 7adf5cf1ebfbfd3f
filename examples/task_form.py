"""The task form: a training as a list of middleware.

python examples/task_form.py --max-env-step 20000
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import torch

from dicore.config import bind, compile_config
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import make_env_manager
from dicore.run.random import seed_everything
from dicore.task import OnlineRLContext, task
from dicore_contrib_envs.presets import CARTPOLE_DQN
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.middleware import (
    CkptSaver,
    OffPolicyLearner,
    StepCollector,
    data_pusher,
    eps_greedy_handler,
    interaction_evaluator,
    termination_checker,
)
from dicore_plugins.policies import DQNPolicy


def main(
    seed: int = 0,
    max_env_step: int = 50_000,
    exp_name: str = "runs/task_form",
    overrides: Sequence[str] = (),
) -> Any:
    torch.set_num_threads(1)  # one thread is fastest for small networks
    seed_everything(seed)
    compiled = compile_config(
        CARTPOLE_DQN,
        seed=seed,
        overrides=[f"exp_name={exp_name}", f"pipeline.max_env_step={max_env_step}", *overrides],
    )
    collector_env = make_env_manager(compiled.cfg.env, "collector", seed)
    evaluator_env = make_env_manager(compiled.cfg.env, "evaluator", seed)
    cfg = bind(compiled, EnvSpec.of(collector_env)).cfg
    policy = DQNPolicy(cfg.policy)
    buffer_ = NaiveReplayBuffer(cfg.policy.other.replay_buffer)
    warm_up = cfg.policy.collect.random_collect_size

    with task.start(async_mode=False, ctx=OnlineRLContext()):
        task.use(interaction_evaluator(cfg, policy.eval_mode, evaluator_env))
        task.use(eps_greedy_handler(cfg))
        task.use(StepCollector(cfg, policy.collect_mode, collector_env, warm_up))
        task.use(data_pusher(cfg, buffer_))
        task.use(OffPolicyLearner(cfg, policy.learn_mode, buffer_))
        task.use(CkptSaver(cfg, policy, train_freq=1000))
        task.use(termination_checker(max_env_step))
        task.run(max_step=100_000)
        print(f"{task.ctx.env_step} env steps, last return {task.ctx.last_eval_value:.1f}")

    collector_env.close()
    evaluator_env.close()
    return policy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-s", "--seed", type=int, default=0)
    parser.add_argument("--max-env-step", type=int, default=50_000)
    parser.add_argument("--exp-name", default="runs/task_form")
    main(**vars(parser.parse_args()))
