"""TD-MPC2: network, losses by loops, plans, learning, what it does not take, exact resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

from dicore.config import compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, NonFiniteError
from dicore.run.random import seed_everything
from dicore_plugins.buffers import SequenceReplayBuffer
from dicore_plugins.policies import create_policy
from dicore_worlds import TDMPC2Net, TDMPC2Policy
from dicore_worlds.functional import two_hot_mean, two_hot_nll
from tests.plugins.policies.test_value_family import resumes_exactly

VECTOR, BOX = spaces.Box(-1, 1, (4,), np.float32), spaces.Box(-2, 3, (2,), np.float32)
SMALL: dict[str, Any] = {"latent": 8, "simplex": 4, "units": 16, "encoder_units": 16,
                         "cnn_depth": 2, "num_critics": 2}  # fmt: skip
FEW = {"iterations": 2, "num_samples": 16, "num_elites": 4, "num_policy_samples": 3}


def made(
    observation: Any = VECTOR, actions: Any = BOX, *, moved: float = 0.3, **learn: Any
) -> TDMPC2Policy:
    seed_everything(0)
    policy = create_policy(
        {"type": "tdmpc2", "model": SMALL, "discount_factor": 0.9, "learn": learn, "collect": FEW},
        observation_space=observation,
        action_space=actions,
    )
    assert isinstance(policy, TDMPC2Policy)
    with torch.no_grad():
        for parameter in policy.get_attribute("model").parameters():
            parameter.add_(moved * torch.randn_like(parameter))  # the first outputs are all 0
    return policy


def sequences(lengths: tuple[int, ...], steps: int = 4) -> Batch:
    rng, shape = np.random.default_rng(0), (len(lengths), steps)
    obs = rng.uniform(-1, 1, (len(lengths), steps + 1, 4)).astype(np.float32)
    valid = np.arange(steps) < np.array(lengths)[:, None]
    done = np.zeros(shape, np.float32)
    done[0, lengths[0] - 1] = 1
    return Batch(
        {
            "obs": obs[:, :-1],
            "next_obs": obs[:, 1:],
            "action": rng.uniform(-2, 3, (*shape, 2)).astype(np.float32),
            "reward": rng.standard_normal(shape).astype(np.float32),
            "done": done,
            "valid": valid,
        },
        len(lengths),
    )


def test_every_observation_is_encoded_with_gradients() -> None:
    """Those are the first ones of sequences, which begin up to the last step of an episode."""
    buffer = SequenceReplayBuffer(made()._cfg.other.replay_buffer)
    buffer.push(Batch({"number": np.arange(9), "end": np.arange(9) == 8}))
    first = buffer.sample_batch(200, replace=True)["number"][:, 0]
    assert {*first.tolist()} == {*range(9)}


def test_a_network_is_what_it_says() -> None:
    torch.manual_seed(0)
    net = TDMPC2Net(4, 2, latent=8, simplex=4, units=16, num_critics=3)
    for parameter in net.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    z, noise = net.encode(torch.randn(5, 4)), torch.randn(5, 2)
    torch.testing.assert_close(z.unflatten(1, (2, 4)).sum(-1), torch.ones(5, 2))
    action, log_prob, log_std = net.act(z, noise)
    mean = torch.atanh(action.double()) - log_std.exp() * noise
    base = Independent(Normal(mean, log_std.double().exp()), 1)
    density = TransformedDistribution(base, TanhTransform()).log_prob(action.double())
    torch.testing.assert_close(log_prob.double(), density, rtol=1e-3, atol=1e-3)
    together, critics = net.q(z, action), net.world["critics"]
    for index in range(3):
        x = torch.cat([z, action], -1)
        for number in range(3):
            x = x @ critics.weights[number][index] + critics.biases[number][index]
            if number < 2:
                x = torch.nn.functional.layer_norm(x, x.shape[-1:])
                x = x * critics.gains[number][index] + critics.shifts[number][index]
                x = torch.nn.functional.mish(x)
        torch.testing.assert_close(together[index], x, rtol=1e-4, atol=1e-5)


def test_the_losses_are_those_of_loops_over_steps() -> None:
    policy, lengths = made(rho=0.7), (2, 4, 3)
    batch = sequences(lengths)
    model, count = policy.get_attribute("model"), sum(lengths)
    columns = batch.to_torch()
    torch.manual_seed(5)
    with torch.no_grad():
        target = policy._td_target(
            model.encode(columns["next_obs"].transpose(0, 1).flatten(0, 1)),
            columns["reward"].T.flatten(), columns["done"].T.flatten(),
        ).view(4, 3)  # fmt: skip
        parts = dict.fromkeys(("consistency_loss", "reward_loss", "q_loss", "going_loss"), 0.0)
        for row, length in enumerate(lengths):
            z = model.encode(columns["obs"][row, :1])
            for t in range(length):
                action = (columns["action"][row, t : t + 1] - 0.5) / 2.5
                q = model.q(z, action)
                z, reward = model.step(z, action)
                seen = model.encode(columns["next_obs"][row, t : t + 1])
                wanted = columns["reward"][row, t]
                goes = torch.sigmoid(model.going(z)).item()
                done = columns["done"][row, t].item()
                errors = {
                    "consistency_loss": (z - seen).square().mean().item(),
                    "reward_loss": two_hot_nll(reward[0], wanted, model.bins).item(),
                    "q_loss": two_hot_nll(q[:, 0], target[t, row].expand(2), model.bins).mean(),
                    "going_loss": -np.log(1 - goes if done else goes),
                }
                for name, error in errors.items():
                    parts[name] += 0.7**t * float(error) / count
    torch.manual_seed(5)
    found = policy.learn_mode.forward(batch)
    for name, wanted in parts.items():
        assert float(found[name]) == pytest.approx(wanted, rel=1e-4), name
    total = 20 * parts["consistency_loss"] + 0.1 * sum(list(parts.values())[1:])
    assert float(found["world_loss"]) == pytest.approx(total, rel=1e-4)


def test_a_target_is_the_reward_and_the_least_of_two_values_of_what_follows() -> None:
    policy = made()
    model = policy.get_attribute("model")
    z = model.encode(torch.randn(6, 4))
    done = torch.tensor([0.0, 1, 0, 1, 0, 0])
    torch.manual_seed(3)
    found = policy._td_target(z, torch.arange(6.0), done)
    torch.manual_seed(3)
    action, _, _ = model.act(z, torch.randn(6, 2))
    least = two_hot_mean(model.q(z, action, policy._target), model.bins).amin(0)
    torch.testing.assert_close(found, torch.arange(6.0) + 0.9 * (1 - done) * least)


@pytest.mark.parametrize("dims", [(), (2, 1)])
def test_actions_that_are_no_vectors_are_learned_from_as_flat_ones(dims: tuple[int, ...]) -> None:
    found, size = [], int(np.prod(dims))
    for shape in (dims, (size,)):
        policy, batch = made(actions=spaces.Box(-2, 3, shape, np.float32)), sequences((2, 4))
        batch.columns["action"] = batch["action"][..., :size].reshape(2, 4, *shape)
        found.append(policy.learn_mode.forward(batch)["world_loss"])
    assert torch.equal(*found)


def test_steps_that_are_none_do_not_count() -> None:
    results = []
    for filler in (0.0, 50.0):
        policy, batch = made(moved=2.0), sequences((2, 4, 3))  # Q values of a range above 1
        for key in ("obs", "next_obs", "action", "reward"):
            column = np.array(batch[key])
            column[~batch["valid"]] = filler
            batch.columns[key] = column
        policy.learn_mode.forward(batch)
        results.append(
            {**policy.get_attribute("model").state_dict(), "range": policy._range.clone()}
        )
    assert all(torch.equal(results[0][key], results[1][key]) for key in results[0])


@torch.no_grad()
def test_a_plan_is_worth_its_rewards_and_the_value_beyond() -> None:
    policy = made()
    planner, model = (
        policy.collect_mode.get_attribute("actor")._model,
        policy.get_attribute("model"),
    )
    z, actions = model.encode(torch.randn(2, 4)), torch.rand(2, 3, 3, 2) * 2 - 1
    found = planner._value(z, actions)
    for env in range(2):
        for number in range(3):
            state, total, discount = z[env : env + 1], 0.0, 1.0
            for action in actions[env, number]:
                state, reward = model.step(state, action[None])
                total += discount * float(two_hot_mean(reward, model.bins))
                discount *= 0.9 * float(torch.sigmoid(model.going(state)))
            last, _, _ = model.act(state)
            q = float(two_hot_mean(model.q(state, last), model.bins).mean())
            assert float(found[env, number]) == pytest.approx(total + discount * q, rel=1e-4)


def test_a_plan_begins_with_that_of_the_step_before_and_is_forgotten_at_a_reset() -> None:
    policy = made()
    obs = EnvBatch(np.arange(2), np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32))
    first = policy.eval_mode.forward(obs).value
    second = policy.eval_mode.forward(obs).value
    assert not np.array_equal(first["action"], second["action"])
    assert (first["prev_state"] == 0).all()
    policy.eval_mode.reset([1])
    third = policy.eval_mode.forward(obs).value
    np.testing.assert_allclose(third["action"][1], first["action"][1], atol=1e-6)
    assert (third["prev_state"][0] != 0).any()


def test_it_learns_the_best_action_of_a_bandit() -> None:
    """The reward is the nearness to an action; each episode has one step."""
    policy, best = made(moved=0.0, learning_rate=3e-3), np.array([1.5, -1.0], np.float32)
    rng = np.random.default_rng(0)
    for _ in range(150):
        obs = rng.uniform(-1, 1, (64, 4)).astype(np.float32)
        action = rng.uniform(-2, 3, (64, 2)).astype(np.float32)
        columns = {"obs": obs, "next_obs": obs, "action": action, "done": np.ones(64, np.float32)}
        reward = -np.abs(action - best).sum(1)
        policy.learn_mode.forward(Batch({**columns, "reward": reward.astype(np.float32)}, 64))
    seen = EnvBatch(np.arange(8), rng.uniform(-1, 1, (8, 4)).astype(np.float32))
    chosen = policy.eval_mode.forward(seen).value["action"]
    assert np.abs(chosen - best).mean() < 0.4


def test_images_are_taken() -> None:
    with pytest.raises(ConfigError, match="float32 from 0 to 255"):
        made(spaces.Box(0, 255, (32, 32, 3), np.float32))
    policy = made(spaces.Box(0, 255, (32, 32, 3), np.uint8))
    obs = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3)).astype(np.uint8)
    acted = policy.collect_mode.forward(EnvBatch(np.arange(2), obs)).value["action"]
    assert all(each in BOX for each in acted)
    truths, encode = torch.from_numpy(obs > 99), policy.get_attribute("model").encode
    assert torch.equal(encode(truths), encode(truths.float()))  # from 0 to 1: not divided


@pytest.mark.parametrize("part", ["world", "policy"])
def test_a_network_of_nan_does_not_act(part: str) -> None:
    policy = made()
    for parameter in getattr(policy.get_attribute("model"), part).parameters():
        parameter.data.fill_(torch.nan)
    with pytest.raises(NonFiniteError, match="NaN"):
        policy.eval_mode.forward(EnvBatch(np.arange(1), np.zeros((1, 4), np.float32)))


@pytest.mark.parametrize(
    ("config", "actions", "problem"),
    [
        ({}, spaces.Discrete(3), "bounded real numbers"),
        ({}, spaces.Box(-np.inf, np.inf, (2,)), "bound"),
        ({"other": {"replay_buffer": {"type": "naive"}}}, BOX, "sequence"),
        ({"collect": {"num_elites": 9, "num_samples": 4, "num_policy_samples": 4}}, BOX, "elites"),
        ({"collect": {"min_std": 3.0}}, BOX, "max_std"),
        ({"model": {"latent": 10}}, BOX, "simplex"),
        ({"model": {"bins": 10}}, BOX, "odd"),
        ({"nstep": 3}, BOX, "nstep"),
        ({"other": {"replay_buffer": {"replay_buffer_size": 255}}}, BOX, "must be <= 255"),
        ({"other": {"replay_buffer": {"alpha": 0.1}}}, BOX, "alpha: has no effect"),
        ({"other": {"replay_buffer": {"stride": 5}}}, BOX, "stride: must be <= 4"),
        ({"other": {"replay_buffer": {"newest": 257}}}, BOX, "learn.batch_size = 256"),
    ],
)
def test_what_it_does_not_do_is_refused(config: Any, actions: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        create_policy({"type": "tdmpc2", **config}, observation_space=VECTOR, action_space=actions)


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    options = [
        *(f"policy.model.{name}={size}" for name, size in SMALL.items() if name != "cnn_depth"),
        *(f"policy.collect.{name}={number}" for name, number in FEW.items()),
        *("policy.learn.batch_size=8", "policy.collect.n_sample=15"),
        *("policy.collect.random_collect_size=30", "env.collector_env_num=3"),
    ]
    resumes_exactly(tmp_path, "pendulum", "tdmpc2", (90, 150), *options)


def test_the_preset_fits_its_task() -> None:
    pytest.importorskip("dicore_contrib_envs")
    compiled = compile_config(preset="pendulum_tdmpc2")
    assert (compiled.policy.type, compiled.env.type) == ("tdmpc2", "pendulum")
