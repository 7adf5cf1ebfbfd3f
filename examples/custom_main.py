"""A hand-written training loop with the components of dicore.

    python examples/custom_main.py --max-env-step 20000

It trains like `dicore train -e cartpole -p dqn` and gives the same numbers for the same seed,
because it uses the same components.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import torch

from dicore.config import bind, compile_config
from dicore.interfaces.env import EnvSpec
from dicore.run.random import seed_everything
from dicore_contrib_envs.presets import CARTPOLE_DQN
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager, get_vec_env_setting
from dicore_plugins.evaluators import BaseSerialEvaluator
from dicore_plugins.functional import get_epsilon_greedy_fn
from dicore_plugins.learners import BaseLearner
from dicore_plugins.policies import DQNPolicy, RandomPolicy


def main(
    seed: int = 0,
    max_env_step: int = 50_000,
    exp_name: str = "runs/custom_main",
    overrides: Sequence[str] = (),
) -> Any:
    torch.set_num_threads(1)  # one thread is fastest for small networks
    seed_everything(seed)
    compiled = compile_config(CARTPOLE_DQN, seed=seed, overrides=overrides)

    env_fn, collector_cfg, evaluator_cfg = get_vec_env_setting(compiled.cfg.env)
    collector_env = BaseEnvManager([lambda c=c: env_fn(c) for c in collector_cfg])
    evaluator_env = BaseEnvManager([lambda c=c: env_fn(c) for c in evaluator_cfg])
    collector_env.seed(seed, role="collector")
    evaluator_env.seed(seed, role="evaluator")
    compiled = bind(compiled, EnvSpec.of(collector_env))
    cfg = compiled.cfg

    policy = DQNPolicy(cfg.policy)
    collector = SampleCollector(cfg.policy.collect.collector, collector_env, policy.collect_mode)
    evaluator = BaseSerialEvaluator(cfg.policy.eval.evaluator, evaluator_env, policy.eval_mode)
    learner = BaseLearner(cfg.policy.learn.learner, policy.learn_mode, exp_name=exp_name)
    buffer = NaiveReplayBuffer(cfg.policy.other.replay_buffer)
    eps = cfg.policy.other.eps
    epsilon = get_epsilon_greedy_fn(eps.start, eps.end, eps.decay, eps.type)

    warm_up = cfg.policy.collect.random_collect_size
    while collector.envstep < max_env_step:
        stop = False
        if evaluator.should_eval(learner.train_iter):
            stop, returns = evaluator.eval(
                learner.save_checkpoint, learner.train_iter, collector.envstep
            )
            print(f"{collector.envstep:6d} env steps: return {sum(returns) / len(returns):.1f}")
        if collector.envstep < warm_up:
            random = RandomPolicy(action_space=collector_env.action_space, like=policy.collect_mode)
            collector.reset_policy(random.collect_mode)
            data = collector.collect_batch(n_sample=warm_up, random_collect=True)
            collector.reset_policy(policy.collect_mode)
        else:
            data = collector.collect_batch(
                n_sample=min(cfg.policy.collect.n_sample, max_env_step - collector.envstep),
                train_iter=learner.train_iter,
                policy_kwargs={"eps": epsilon(collector.envstep)},
            )
        buffer.push(data)
        if buffer.count() >= cfg.policy.learn.batch_size:
            for _ in range(cfg.policy.learn.update_per_collect):
                batch = buffer.sample_batch(cfg.policy.learn.batch_size, reuse=True)
                learner.train(batch, collector.envstep)
        if stop:
            print("solved")
            break

    collector.close()
    evaluator.close()
    learner.close()
    return policy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-s", "--seed", type=int, default=0)
    parser.add_argument("--max-env-step", type=int, default=50_000)
    parser.add_argument("--exp-name", default="runs/custom_main")
    main(**vars(parser.parse_args()))
