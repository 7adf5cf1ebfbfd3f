"""Environments that have the same number of steps become samples in one call of the policy."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("torch")

from dicore.config.checks import bind
from dicore.config.compiler import compile_config
from dicore.data import Batch
from dicore.interfaces.env import EnvSpec
from dicore.interfaces.policy import Tail
from dicore.run.random import seed_everything
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import VectorEnvManager
from dicore_plugins.models.dqn.model import DQN
from dicore_plugins.policies import DQNPolicy

ENVS = 12


def of_one(block: Batch, tail: Tail, env: int) -> tuple[Batch, Tail]:
    """Returns the column of one environment."""
    count = block["end"].shape[1]
    columns = {key: np.asarray(each)[:, env : env + 1] for key, each in block.items()}
    here = tail.final_index % count == env
    finals = tail.final_index[here] // count, tail.final_obs[here]
    obs = tail.obs[env : env + 1]
    tail = tail._replace(obs=obs, final_index=finals[0], final_obs=finals[1])
    return Batch(columns, len(block)), tail


def test_samples_equal_those_of_each_environment_alone() -> None:
    compiled = compile_config({"env": {"type": "cartpole"}, "policy": {"type": "ppo"}})
    env = gymnasium.make("CartPole-v1")
    seed_everything(0)
    policy: Any = bind(compiled, EnvSpec.of(env)).policy.build(None)
    make = policy.collect_mode.get_train_sample
    widths: list[int] = []

    def recording(block: Batch, tail: Tail) -> Batch:
        assert all(each.flags.c_contiguous for each in block.columns.values())
        samples = make(block, tail)
        width = block["end"].shape[1]
        widths.append(width)
        for at in range(width):
            alone = make(*of_one(block, tail, at))
            mine = samples[np.flatnonzero(samples["env_id"] == block["env_id"][0, at])]
            for key in ("advantage", "target", "log_prob", "obs", "end"):
                np.testing.assert_allclose(mine[key], alone[key], rtol=1e-4, atol=1e-5)
        return samples

    manager = VectorEnvManager.of(
        lambda n: gymnasium.make_vec("CartPole-v1", n, vectorization_mode="vector_entry_point"),
        ENVS,
    )
    manager.seed(0)
    mode = policy.collect_mode._replace(get_train_sample=recording)
    collector = SampleCollector(None, manager, mode)
    for _ in range(3):
        widths.clear()
        samples = collector.collect_batch(n_sample=40 * ENVS)
        assert len(samples) == 40 * ENVS
        assert sum(widths) == ENVS, "each environment once"
        assert len(widths) <= 6, "not one call per environment"
        ends = samples["end"].copy()
        ends[collector.trajectory_end_idx] = True
        assert set(samples["env_id"][ends]) == set(range(ENVS))
    collector.close()


def test_samples_after_episodes_of_a_vector_env() -> None:
    manager = VectorEnvManager([lambda: gymnasium.make("CartPole-v1")] * 3)
    manager.seed(0)
    policy = DQNPolicy({}, model=DQN(4, 2, (8,)))
    collector = SampleCollector(None, manager, policy.collect_mode)
    for seed in range(4):
        seed_everything(seed)
        collector.collect_batch(n_episode=3, policy_kwargs={"eps": 1.0})
        samples = collector.collect_batch(n_sample=30, policy_kwargs={"eps": 1.0})
        assert len(samples) == 30
        assert np.bincount(samples["env_id"]).tolist() == [10, 10, 10]
    collector.close()
