"""P5: the sample collector compared with SB3's; 8 CartPole envs, network 128-128-64, eps 0.1.

python -m benchmarks.collector
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import torch

from benchmarks.measure import contest, missing
from dicore.run.random import seed_everything
from dicore_plugins.collectors.sample.collector import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.models.dqn.config import DQNModelConfig
from dicore_plugins.policies.value.dqn import DQNPolicy
from dicore_plugins.policies.value.dqn_config import DQNConfig

ENVS, EPS = 8, 0.1


def make() -> gymnasium.Env:
    return gymnasium.make("CartPole-v1")


def dicore_collect(samples: int) -> Callable[[], object]:
    seed_everything(0)  # how long episodes are depends on the network and on exploration
    manager = BaseEnvManager([make] * ENVS)
    manager.seed(0)
    policy = DQNPolicy(DQNConfig(model=DQNModelConfig(type="dqn", obs_shape=4, action_shape=2)))
    collector = SampleCollector(None, manager, policy.collect_mode)
    return lambda: collector.collect_batch(n_sample=samples, policy_kwargs={"eps": EPS})


def sb3_collect(samples: int) -> Callable[[], object] | None:
    try:
        from stable_baselines3 import DQN
        from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit
        from stable_baselines3.common.vec_env import DummyVecEnv
    except ImportError:
        missing("P5", "stable-baselines3")
        return None
    env = DummyVecEnv([make] * ENVS)
    model: Any = DQN(
        "MlpPolicy", env, buffer_size=20_000, learning_starts=0, exploration_initial_eps=EPS,
        exploration_final_eps=EPS, policy_kwargs={"net_arch": [128, 128, 64]}, device="cpu", seed=0,
    )  # fmt: skip
    _, callback = model._setup_learn(10**9, None)  # noqa: SLF001 - what learn() itself calls
    model.exploration_rate = EPS
    frequency = TrainFreq(samples // ENVS, TrainFrequencyUnit.STEP)
    return lambda: model.collect_rollouts(
        env, callback, frequency, model.replay_buffer, learning_starts=0, log_interval=None
    )


def main() -> None:
    torch.set_num_threads(1)
    for samples, target in ((10_000, 1.9), (8, 1.4)):
        contenders = {"dicore": dicore_collect(samples)}
        peer = sb3_collect(samples)
        if peer is not None:
            contenders["SB3"] = peer
        contest(f"P5 n={samples}", contenders, samples, "samples/s", against={"SB3": target})


if __name__ == "__main__":
    main()
