"""TD3 on Pendulum in a hand-written loop: one update of a replay sample per env step.

python examples/custom_main_td3.py --max-env-step 10000

The options are those of `dicore train -e pendulum -p td3`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import torch

from dicore.config import bind, compile_config
from dicore.interfaces.env import EnvSpec
from dicore.run.random import seed_everything
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager, get_vec_env_setting
from dicore_plugins.evaluators import BaseSerialEvaluator
from dicore_plugins.learners import BaseLearner
from dicore_plugins.policies import RandomPolicy, TD3Policy


def main(
    seed: int = 0,
    max_env_step: int = 10000,
    exp_name: str = "runs/custom_main_td3",
    overrides: Sequence[str] = (),
) -> Any:
    torch.set_num_threads(1)  # one thread is fastest for small networks
    seed_everything(seed)
    compiled = compile_config(preset="pendulum_td3", seed=seed, overrides=overrides)

    env_fn, collector_cfg, evaluator_cfg = get_vec_env_setting(compiled.cfg.env)
    collector_env = BaseEnvManager([lambda c=c: env_fn(c) for c in collector_cfg])
    evaluator_env = BaseEnvManager([lambda c=c: env_fn(c) for c in evaluator_cfg])
    collector_env.seed(seed, role="collector")
    evaluator_env.seed(seed, role="evaluator")
    cfg = bind(compiled, EnvSpec.of(collector_env)).cfg

    policy = TD3Policy(cfg.policy)
    collector = SampleCollector(cfg.policy.collect.collector, collector_env, policy.collect_mode)
    evaluator = BaseSerialEvaluator(cfg.policy.eval.evaluator, evaluator_env, policy.eval_mode)
    learner = BaseLearner(cfg.policy.learn.learner, policy.learn_mode, exp_name=exp_name)
    buffer = NaiveReplayBuffer(cfg.policy.other.replay_buffer)

    warm_up = min(cfg.policy.collect.random_collect_size, max_env_step)
    random = RandomPolicy(action_space=collector_env.action_space, like=policy.collect_mode)
    collector.reset_policy(random.collect_mode)
    buffer.push(collector.collect_batch(n_sample=warm_up, random_collect=True))
    collector.reset_policy(policy.collect_mode)
    while collector.envstep < max_env_step:
        if evaluator.should_eval(learner.train_iter):
            stop, returns = evaluator.eval(
                learner.save_checkpoint, learner.train_iter, collector.envstep
            )
            print(f"{collector.envstep:6d} env steps: return {sum(returns) / len(returns):.1f}")
            if stop:
                print("solved")
                break
        settings = policy.command_mode.get_setting_collect({"envstep": collector.envstep})
        data = collector.collect_batch(
            n_sample=cfg.policy.collect.n_sample,
            train_iter=learner.train_iter,
            policy_kwargs=settings,  # the exploration noise
        )
        buffer.push(data)
        batch = buffer.sample_batch(cfg.policy.learn.batch_size, reuse=True)
        learner.train(batch, collector.envstep)

    collector.close()
    evaluator.close()
    learner.close()
    return policy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-s", "--seed", type=int, default=0)
    parser.add_argument("--max-env-step", type=int, default=10000)
    parser.add_argument("--exp-name", default="runs/custom_main_td3")
    main(**vars(parser.parse_args()))
