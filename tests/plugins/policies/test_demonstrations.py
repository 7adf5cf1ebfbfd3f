"""Policies that learn from demonstrations and own steps: rewards, losses, samples, resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.data import Batch, TimestepBatch
from dicore.errors import ConfigError
from dicore_plugins.policies import as_demonstrations
from tests.plugins.policies.test_actor_critic import policy_of
from tests.plugins.policies.test_value_family import resumes_exactly

BOX = spaces.Box(-2.0, 2.0, (1,), np.float32)
GAMMA = 0.9


def expert_steps(actions: Any, count: int = 40) -> Batch:
    """Returns episodes of 10 steps, by turns terminated and truncated; rewards of all sizes."""
    rng = np.random.default_rng(0)
    end = np.arange(count) % 10 == 9
    discrete = isinstance(actions, spaces.Discrete)
    action = rng.integers(0, 3, count) if discrete else rng.uniform(-2, 2, (count, 1))
    obs = rng.normal(size=(count, 2)).astype(np.float32)
    after = np.concatenate([obs[1:], obs[:1]])
    after[end] = rng.normal(size=(end.sum(), 2))
    done = end & (np.arange(count) % 20 == 9)
    return Batch({
        "obs": obs, "action": action, "reward": rng.normal(size=count).astype(np.float32) * 100,
        "next_obs": after, "done": done.astype(np.float32), "end": end,
    })  # fmt: skip


def own(policy: Any, actions: Any, count: int = 4) -> dict[str, Any]:
    obs = np.zeros((count, 2), np.float32)
    action = np.array([actions.sample() for _ in range(count)])
    flags = np.zeros(count, np.bool_)
    step = TimestepBatch(obs, np.full(count, 55, np.float32), flags, flags, [{}] * count)
    columns: dict[str, Any] = policy.collect_mode.process_transition(obs, {"action": action}, step)
    return columns


@pytest.mark.parametrize(
    ("name", "actions", "nstep", "shown"),
    [("sqil", spaces.Discrete(3), 1, 1.0), ("sqil", spaces.Discrete(3), 3, 1.0),
     ("sqil_sac", BOX, 1, 1.0), ("sqil_sac", BOX, 2, 1.0), ("rbc", spaces.Discrete(3), 2, 0.0)],
)  # fmt: skip
def test_rewards_are_exact_whatever_the_environment_pays(
    name: str, actions: Any, nstep: int, shown: float
) -> None:
    """L17: own steps have 0; k bridged steps shown have 1 + gamma + … + gamma^(k-1)."""
    policy = policy_of(name, actions, f"policy.nstep={nstep}", f"policy.discount_factor={GAMMA}")
    columns = own(policy, actions)
    assert columns["reward"].tolist() == columns["demo"].tolist() == [0, 0, 0, 0]
    samples = as_demonstrations(expert_steps(actions), policy.collect_mode)
    left = 10 - np.arange(len(samples)) % 10
    bridged = np.minimum(left, nstep)
    wanted = shown * (1 - GAMMA**bridged) / (1 - GAMMA)
    np.testing.assert_allclose(samples["reward"], wanted, rtol=1e-5)
    assert (samples["demo"] == 1).all()
    steps = expert_steps(actions)
    last = np.arange(len(samples)) + bridged - 1
    np.testing.assert_array_equal(samples["next_obs"], steps["next_obs"][last])
    np.testing.assert_array_equal(samples["done"], steps["done"][last])


def mixed(policy: Any, actions: Any = None) -> Batch:
    """Returns samples, half of which are shown; the others have other actions."""
    actions = spaces.Discrete(3) if actions is None else actions
    samples = as_demonstrations(expert_steps(actions), policy.collect_mode)
    demo = (np.arange(len(samples)) % 2).astype(np.float32)
    reward = samples["reward"] * demo if policy._demo_reward is not None else samples["reward"]
    return Batch({**samples.columns, "demo": demo, "reward": reward}, len(samples))


def spread(policy: Any) -> None:
    """Makes the target network another than the network, and the values differ."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for model in (policy._model, policy._target_model):
            for each in model.parameters():
                each.add_(0.3 * torch.randn(each.shape, generator=generator))


def gradient(policy: Any, batch: Batch) -> torch.Tensor:
    loss = policy._loss(batch.to_torch(), None)[0]
    policy._flat.grad.zero_()
    loss.backward()
    found: torch.Tensor = policy._flat.grad.clone()
    return found


def test_rbc_without_lambda_has_the_gradient_of_cloning() -> None:
    """L18: -log softmax(min(Q_1, Q_2) / alpha) of the actions shown, and of no other."""
    policy = policy_of("rbc", spaces.Discrete(3), "policy.learn.bellman_weight=0")
    spread(policy)
    batch = mixed(policy)
    found = gradient(policy, batch)
    chosen = batch.to_torch()[np.flatnonzero(batch["demo"])]
    logit = policy._model(chosen["obs"])["logit"]
    loss = torch.nn.functional.cross_entropy(logit, chosen["action"].long())
    policy._flat.grad.zero_()
    loss.backward()
    torch.testing.assert_close(found, policy._flat.grad)
    assert found.abs().sum() > 0


def test_the_second_term_of_rbc_is_the_soft_bellman_error_without_reward() -> None:
    """L18: over all samples, by numpy, of both networks."""
    options = ("policy.learn.criterion=mse", f"policy.discount_factor={GAMMA}")
    losses = []
    for weight in (0, 2):
        policy = policy_of(
            "rbc", spaces.Discrete(3), f"policy.learn.bellman_weight={weight}", *options
        )
        spread(policy)
        batch = mixed(policy).to_torch()
        losses.append(policy._loss(batch, None)[0].item())
    alpha = policy._model.log_temperature.exp().item()
    with torch.no_grad():
        after = policy._target_model.q(batch["next_obs"]).double().numpy()
        both = [q.double().numpy() for q in policy._model.both(batch["obs"])]
    value = alpha * np.log(np.exp(after / alpha).sum(1))
    y = GAMMA * (1 - batch["done"].double().numpy()) * value
    rows = np.arange(len(y))
    wanted = sum(np.mean((q[rows, batch["action"].long()] - y) ** 2) for q in both)
    assert losses[1] - losses[0] == pytest.approx(2 * wanted, rel=1e-4)


def test_the_loss_of_sqil_is_that_of_soft_q_learning() -> None:
    """L17: with the rewards of SQIL; RBC with reward 0 has the same second term."""
    losses = []
    for name in ("sqil", "sqn"):
        options = ["policy.learn.auto_temperature=false", "policy.model.temperature=1.0"]
        policy = policy_of(name, spaces.Discrete(3), *options)
        spread(policy)
        maker = policy_of("sqil", spaces.Discrete(3))
        batch = mixed(maker)
        losses.append(policy._loss(batch.to_torch(), None)[0].item())
    assert losses[0] == losses[1]
    assert set(np.unique(batch["reward"])) == {0, 1}


def test_an_update_of_dqfd_row_by_row() -> None:
    options = ("policy.nstep=3", f"policy.discount_factor={GAMMA}", "policy.learn.margin=0.5",
               "policy.learn.margin_weight=2", "policy.learn.one_step_weight=0.25",
               "policy.learn.criterion=mse")  # fmt: skip
    policy = policy_of("dqfd", spaces.Discrete(3), *options)
    spread(policy)
    batch, steps = mixed(policy), expert_steps(spaces.Discrete(3))
    obs = torch.from_numpy(steps["obs"])
    with torch.no_grad():
        q = policy._model.q(obs).double().numpy()
    losses, priorities = [], []
    for row in range(len(batch)):
        action, k = int(steps["action"][row]), min(10 - row % 10, 3)
        last = row + k - 1
        total = sum(GAMMA**j * steps["reward"][row + j] for j in range(k))
        errors = []
        for at, reward, gamma in ((last, total, GAMMA**k), (row, steps["reward"][row], GAMMA)):
            after = torch.from_numpy(steps["next_obs"][at : at + 1])
            with torch.no_grad():
                best = int(policy._model.q(after).argmax())
                value = float(policy._target_model.q(after)[0, best])
            errors.append(q[row, action] - (reward + gamma * (1 - steps["done"][at]) * value))
        raised = q[row] + 0.5 * (np.arange(3) != action)
        margin = batch["demo"][row] * (raised.max() - q[row, action])
        losses.append(errors[0] ** 2 + 0.25 * errors[1] ** 2 + 2 * margin)
        priorities.append(abs(errors[0]))
    result = policy.learn_mode.forward(batch)
    assert float(result["total_loss"]) == pytest.approx(np.mean(losses), rel=1e-4)
    np.testing.assert_allclose(result["priority"], priorities, rtol=1e-3)


def test_the_margin_of_r2d3_is_that_of_the_steps_shown_after_the_burn_in() -> None:
    sizes = ("policy.collect.burn_in=2", "policy.collect.unroll_len=3", "policy.nstep=2",
             "policy.model.encoder_hidden_size_list=[8]",
             "policy.model.rnn_hidden_size=5")  # fmt: skip
    losses, batches = [], []
    for weight in (0, 3):
        policy = policy_of(
            "r2d3", spaces.Discrete(3), f"policy.learn.margin_weight={weight}", *sizes
        )
        batch = as_demonstrations(expert_steps(spaces.Discrete(3)), policy.collect_mode)
        batch.columns["demo"][::2] = 0
        batches.append(batch.to_torch())
        losses.append(policy._loss(batches[-1], None)[0].item())
    batch = batches[-1]
    assert batch["obs"].shape[1:] == (7, 2)
    with torch.no_grad():
        time = batch["obs"].transpose(0, 1)
        end = batch["end"].transpose(0, 1)
        start = policy._model.unroll(time[:2], batch["prev_state"], end[:2])["hidden"]
        q = policy._model.unroll(time[2:], start, end[2:])["logit"][:3].double().numpy()
    action = batch["action"].transpose(0, 1)[2:5].long().numpy()
    raised = q + 0.8 * (np.arange(3) != action[..., None])
    taken = np.take_along_axis(q, action[..., None], -1)[..., 0]
    wanted = (batch["demo"].transpose(0, 1)[2:5].double().numpy() * (raised.max(-1) - taken)).mean()
    assert losses[1] - losses[0] == pytest.approx(3 * wanted, rel=1e-4)


@pytest.mark.parametrize("name", ["dqfd", "r2d3"])
def test_the_margin_ignores_actions_that_a_mask_forbids(name: str) -> None:
    """The action shown is the only one that is allowed: nothing is to exceed it."""
    sizes = ("policy.collect.burn_in=0", "policy.collect.unroll_len=3", "policy.nstep=2",
             "policy.model.rnn_hidden_size=5") if name == "r2d3" else ()  # fmt: skip
    steps = expert_steps(spaces.Discrete(3))
    allowed = np.eye(3, dtype=np.int8)[np.asarray(steps["action"]).astype(int)]
    columns = {
        **steps.columns,
        "obs": {"x": steps["obs"], "action_mask": allowed},
        "next_obs": {"x": steps["next_obs"], "action_mask": np.ones_like(allowed)},
    }
    seen = spaces.Dict(x=spaces.Box(-9, 9, (2,), np.float32), action_mask=spaces.MultiBinary(3))
    losses = []
    for weight in (0, 5):
        options = (f"policy.learn.margin_weight={weight}", *sizes)
        policy = policy_of(name, spaces.Discrete(3), *options, observed=seen)
        batch = as_demonstrations(Batch(columns, len(steps)), policy.collect_mode)
        losses.append(policy._loss(batch.to_torch(), None)[0].item())
    assert losses[0] == losses[1]


def test_a_single_buffer_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a buffer for its own steps and one for demonstr"):
        policy_of("sqil", spaces.Discrete(3), "policy.other.replay_buffer.type=naive")


@pytest.mark.parametrize("name", ["sqil", "rbc", "bco"])
def test_a_reward_model_of_a_policy_without_rewards_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"reward_model: {name} learns without rewards"):
        policy_of(name, spaces.Discrete(3), "policy.reward_model.type=rnd")


def test_rlpd_is_redq_with_the_rewards_of_both() -> None:
    """Its own steps and those shown keep their rewards; the loss is that of REDQ."""
    small = ("policy.model.num_critics=3", "policy.model.critic_hidden_size_list=[8]")
    policy = policy_of("rlpd", BOX, *small)
    columns, steps = own(policy, BOX), expert_steps(BOX)
    assert columns["reward"].tolist() == [55] * 4
    samples = as_demonstrations(steps, policy.collect_mode)
    np.testing.assert_array_equal(samples["reward"], steps["reward"])
    assert (samples["demo"] == 1).all()
    redq = policy_of("redq", BOX, *small, "policy.model.critic_layer_norm=true")
    losses = []
    for each in (policy, redq):
        each._noise = np.random.default_rng(0)
        losses.append(each.learn_mode.forward(mixed(policy, BOX))["critic_loss"].item())
    assert losses[0] == losses[1]


@pytest.mark.parametrize("name", ["sqil", "rbc", "dqfd", "r2d3"])
def test_prioritized_replay_has_two_buffers_too(name: str) -> None:
    cfg = policy_of(name, spaces.Discrete(3), "policy.priority=true").get_attribute("cfg")
    buffer = cfg.other.replay_buffer
    assert [buffer.agent.type, buffer.demo.type] == ["advanced", "advanced"]
    assert buffer.demo.share in (0.25, 0.5)


RECURRENT = (
    "policy.collect.burn_in=2", "policy.collect.unroll_len=3", "policy.nstep=2",
    "policy.learn.pretrain=3", "policy.learn.batch_size=8", "policy.learn.update_per_collect=2",
    "policy.model.encoder_hidden_size_list=[8]", "policy.model.rnn_hidden_size=8",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "steps", "options"),
    [
        ("sqil", (192, 384), ("policy.learn.update_per_collect=4",)),
        ("dqfd", (184, 376), ("policy.nstep=5", "policy.priority=true", "policy.learn.pretrain=9",
                              "policy.learn.update_per_collect=2")),
        ("bco", (192, 384), ("policy.collect.random_collect_size=64",
                             "policy.learn.update_per_collect=4")),
        ("r2d3", (197, 389), RECURRENT),
    ],
)  # fmt: skip
def test_a_resumed_run_ends_as_an_uninterrupted_one(
    name: str, steps: tuple[int, int], options: tuple[str, ...], tmp_path: Path
) -> None:
    shown = ("pipeline.expert.type=random", "pipeline.expert_episodes=8",
             "env.collector_env_num=2", "policy.collect.n_sample=16")  # fmt: skip
    resumes_exactly(tmp_path, "cartpole", name, steps, *shown, *options)
