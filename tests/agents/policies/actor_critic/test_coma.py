"""COMA: counterfactual advantages, and returns of the values of actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, MultiBinary

from dicore.data import Batch
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore.interfaces.policy import Tail
from dicore_plugins.functional import gae
from tests.agents.policies.actor_critic.games import acted, drawn, made, payoff, team_spec


def test_a_critic_does_not_see_the_agents_own_action() -> None:
    spec = team_spec(3)
    net = made("coma", spec).get_attribute("model")
    obs = {"obs": torch.from_numpy(drawn(spec, 1)["obs"])}
    q = net.q(obs, torch.tensor([[0, 1, 2]]))[0]
    other = net.q(obs, torch.tensor([[2, 1, 2]]))[0]
    assert torch.equal(q[0], other[0])
    assert not torch.equal(q[1], other[1])
    assert not torch.equal(q[2], other[2])


def test_actors_follow_counterfactual_advantages() -> None:
    """The gradient of the loss is that of -mean log pi (Q - sum pi Q)."""
    spec = team_spec(action_mask=MultiBinary([2, 3]))
    learn = {"optimizer": "sgd", "learning_rate": 0.1, "max_grad_norm": None, "adv_norm": False}
    policy = made("coma", spec, learn=learn)
    obs = drawn(spec, 16)
    obs["action_mask"][::2, 0, 2] = 0
    samples = acted(policy, obs, payoff).to_torch()
    policy.learn_mode.forward(samples)  # the network is no longer even
    net = policy.get_attribute("model")
    logit = net.distribution(samples["obs"])["logit"]
    allowed = samples["obs"]["action_mask"] > 0
    p = torch.softmax(torch.where(allowed, logit, -torch.inf), -1)
    action = samples["action"].unsqueeze(2)
    with torch.no_grad():
        q = net.q(samples["obs"], samples["action"])
        advantage = q.gather(2, action)[..., 0] - (p * q).sum(-1)
    wanted = -(p.gather(2, action)[..., 0].log() * advantage).mean()
    result = policy._actor_update(samples, {})
    assert float(result["policy_loss"]) == pytest.approx(float(wanted.detach()), rel=1e-4)


def test_targets_are_td_lambda_returns_of_the_actions_taken() -> None:
    spec = team_spec()
    policy = made("coma", spec, discount_factor=0.9)
    steps, envs, rng = 5, 2, np.random.default_rng(0)
    rows = [drawn(spec, envs, seed)["obs"] for seed in range(steps + 1)]
    action = rng.integers(0, 3, (steps, envs, 2))
    reward = rng.standard_normal((steps, envs)).astype(np.float32)
    done = np.zeros((steps, envs), np.bool_)
    done[-1] = True
    block = Batch(
        {"obs": {"obs": np.stack(rows[:-1])}, "action": action, "reward": reward, "done": done,
         "end": done, "logit": np.zeros((steps, envs, 2, 3), np.float32)}, steps,
    )  # fmt: skip
    final = {"obs": rows[-1]}
    tail = Tail(final, np.arange(2) + (steps - 1) * envs, final, steps)
    samples = policy.collect_mode.get_train_sample(block, tail)
    net = policy.get_attribute("model")
    with torch.no_grad():
        taken = torch.from_numpy(action)
        q = [net.q({"obs": torch.from_numpy(rows[at])}, taken[at]) for at in range(steps)]
        value = torch.stack(q).gather(3, taken.unsqueeze(3))[..., 0].numpy()
    after = np.concatenate([value[1:], np.zeros((1, envs, 2), np.float32)])
    for agent in range(2):
        v = value[..., agent]
        wanted = v + gae(reward, v, after[..., agent], done, done, gamma=0.9, gae_lambda=0.8)
        found = samples["target"].reshape(steps, envs, 2)[..., agent]
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_the_critic_learns_before_the_actors() -> None:
    spec = team_spec()
    policy = made("coma", spec, learn={"critic_epoch_per_collect": 3, "critic_batch_size": 16})
    results = policy.learn_mode.forward(acted(policy, drawn(spec, 32), payoff))
    kinds = ["policy" if each["value_loss"] is None else "value" for each in results]
    assert kinds == ["value"] * 6 + ["policy"]


def test_the_last_observation_may_forbid_all_actions() -> None:
    spec = team_spec(action_mask=MultiBinary([2, 3]))
    policy, obs = made("coma", spec), drawn(spec, 4)
    output: dict[str, Any] = {
        "action": np.zeros((1, 4, 2), np.int64), "logit": np.zeros((1, 4, 2, 3), np.float32),
    }  # fmt: skip
    over = np.ones((1, 4), np.bool_)
    columns = {"obs": {key: each[None] for key, each in obs.items()}, "reward": np.ones((1, 4)),
               "done": over, "end": over}  # fmt: skip
    final = {**obs, "action_mask": np.zeros_like(obs["action_mask"])}
    tail = Tail(obs, np.arange(4), final, 1)
    samples = policy.collect_mode.get_train_sample(Batch({**columns, **output}, 1), tail)
    np.testing.assert_allclose(samples["target"], 1)


def test_continuous_actions_are_refused() -> None:
    spec = EnvSpec(team_spec().observation, Box(-1, 1, (2, 2)), agents=("a", "b"))
    with pytest.raises(ConfigError, match="'coma' needs one discrete action"):
        made("coma", spec)
