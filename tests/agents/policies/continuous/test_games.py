"""Games that the algorithms solve, from samples of random actions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from dicore.data import Batch, EnvBatch
from tests.agents.policies.continuous.games import Halves, Matrix
from tests.agents.policies.continuous.made import made, team


def trained(name: str, env: Any, samples: Any, updates: int, **options: Any) -> Any:
    learn = {"learning_rate": 5e-3, "target_theta": 0.05}
    sizes = {"hidden_size_list": [16], "critic_hidden_size_list": [32]}
    spec = team(env.action_space, env.observation_space.spaces)
    policy = made(name, spec, {**sizes, **options}, learn=learn)
    for number in range(updates):
        policy.learn_mode.forward(samples(number))
    return policy


def acted(policy: Any, obs: Any) -> Any:
    ids = np.arange(len(obs["obs"]))
    return policy.eval_mode.forward(EnvBatch(ids, obs)).value["action"]


def halves(seed: int, count: int = 64) -> Batch:
    rng = np.random.default_rng(seed)
    seen, after = rng.uniform(-1, 1, (2, count, 2, 1)).astype(np.float32)
    action = rng.uniform(-2, 2, (count, 2, 1)).astype(np.float32)
    reward = -np.square((action - seen).sum((1, 2)))
    columns = {"obs": {"obs": seen}, "next_obs": {"obs": after}, "action": action}
    return Batch({**columns, "reward": reward, "done": np.ones(count, np.float32)}, count)


@pytest.mark.parametrize(
    ("name", "share"), [("maddpg", "all"), ("matd3", "none"), ("masac", "all")]
)
def test_agents_share_the_sum_that_each_knows_one_half_of(name: str, share: str) -> None:
    policy = trained(name, Halves, halves, 300, share=share)
    seen = np.random.default_rng(1).uniform(-1, 1, (50, 2, 1)).astype(np.float32)
    missed = (acted(policy, {"obs": seen}) - seen).sum((1, 2))
    assert np.square(missed).mean() < 0.15  # 0.67 of two agents that always answer 0


def joint_actions(_: int) -> Batch:
    joint = np.tile(np.array([*product(range(3), repeat=2)]), (4, 1))
    count = len(joint)
    seen = {"obs": np.ones((count, 2, 1), np.float32), "action_mask": np.ones((count, 2, 4))}
    seen["action_mask"][..., 3] = 0
    both = Matrix.payoff[joint[:, 0], joint[:, 1], None].repeat(2, 1).astype(np.float32)
    columns = {"obs": seen, "next_obs": seen, "action": joint, "reward": both}
    return Batch({**columns, "done": np.ones(count, np.float32)}, count)


@pytest.mark.parametrize(("name", "share"), [("maddpg", "all"), ("masac", "none")])
def test_agents_find_the_best_entry_of_a_matrix(name: str, share: str) -> None:
    """They act differently, also with one network."""
    policy = trained(name, Matrix, joint_actions, 200, share=share)
    obs = {key: np.asarray(each[:1]) for key, each in joint_actions(0)["obs"].items()}
    assert acted(policy, obs).tolist() == [[0, 1]]


def test_agents_with_other_rewards_want_other_things() -> None:
    """Each maximizes its own critic: one the sum of the actions, the other what is against it."""

    def opposed(seed: int) -> Batch:
        samples = halves(seed)
        total = samples["action"].sum((1, 2))
        return Batch({**samples.columns, "reward": np.stack([total, -total], 1)}, len(samples))

    policy = trained("maddpg", Halves, opposed, 200, share="none")
    one, other = acted(policy, {"obs": np.zeros((1, 2, 1), np.float32)})[0, :, 0]
    assert one > 1.8
    assert other < -1.8
