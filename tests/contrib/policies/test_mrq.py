"""MR.Q: losses and targets by loops, turns of updates, acting, bad input, exact resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from gymnasium import spaces

from dicore.config import compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, NonFiniteError, UsageError
from dicore.run.random import seed_everything
from dicore_contrib import MRQNet, MRQPolicy
from dicore_plugins.policies import create_policy
from tests.plugins.policies.resuming import same_after_resume

VECTOR, BOX = spaces.Box(-1, 1, (4,), np.float32), spaces.Box(-2, 3, (2,), np.float32)
CHOICE = spaces.Discrete(3, start=1)
ACTIONS = {"box": BOX, "discrete": CHOICE}
SMALL = {"state_features": 8, "action_features": 4, "joint_features": 8, "units": 8, "bins": 9}


def made(actions: Any = BOX, observation: Any = VECTOR, **given: Any) -> MRQPolicy:
    seed_everything(0)
    policy = create_policy(
        {"type": "mrq", "model": SMALL, "discount_factor": 0.9, **given},
        observation_space=observation,
        action_space=actions,
    )
    assert isinstance(policy, MRQPolicy)
    return policy


def sequences(lengths: tuple[int, ...], actions: Any = BOX, steps: int = 5) -> Batch:
    """Returns sequences of which the first one ends its episode."""
    rng, shape = np.random.default_rng(0), (len(lengths), steps)
    obs = rng.uniform(-1, 1, (len(lengths), steps + 1, 4)).astype(np.float32)
    done = np.zeros(shape, np.float32)
    done[0, lengths[0] - 1] = 1
    drawn = (
        rng.uniform(-2, 3, (*shape, 2)).astype(np.float32)
        if actions is BOX
        else rng.integers(1, 4, shape)
    )
    return Batch(
        {
            "obs": obs[:, :-1],
            "next_obs": obs[:, 1:],
            "action": drawn,
            "reward": 3 * rng.standard_normal(shape).astype(np.float32),
            "done": done,
            "inside": np.arange(steps) < np.array(lengths)[:, None],
            "IS": rng.uniform(0.2, 1, len(lengths)).astype(np.float32),
        },
        len(lengths),
    )


def action_of(columns: Any, actions: Any, row: int, step: int) -> torch.Tensor:
    action = columns["action"][row, step : step + 1]
    return (action - 0.5) / 2.5 if actions is BOX else torch.eye(3)[action - 1]


def plain(weights: Any, biases: Any, x: Any, function: Any, *, normed: int, number: int = 0) -> Any:
    for index, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        x = x @ weight[number] + bias[number]
        if index < normed:
            mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
            x = function((x - mean) / (variance + 1e-5).sqrt())
    return x


def test_a_network_is_what_it_says() -> None:
    torch.manual_seed(0)
    net = MRQNet(4, 2, continuous=True, **SMALL)
    for bias in (each for name, each in net.named_parameters() if "biases" in name):
        bias.data.normal_()
    obs = torch.randn(5, 4)
    parts = {name: (part.weights, part.biases) for name, part in net.encoder.items()}
    z = plain(*parts["state"], obs, F.elu, normed=3)
    chosen = plain(net.policy.weights, net.policy.biases, z, F.relu, normed=2)
    embedded = F.elu(plain(*parts["action"], chosen.tanh(), F.elu, normed=0))
    joint = plain(*parts["joint"], torch.cat([z, embedded], 1), F.elu, normed=2)
    found = net(obs)
    torch.testing.assert_close(found["mean"], chosen)
    linear = plain(*parts["predictions"], joint, F.elu, normed=0)
    wanted = {"done": linear[:, 0], "next_state": linear[:, 1:9], "reward_logit": linear[:, 9:]}
    for name, each in wanted.items():
        torch.testing.assert_close(found[name], each)
    for number in range(2):
        q = plain(net.value.weights, net.value.biases, joint, F.elu, normed=3, number=number)
        torch.testing.assert_close(found["q_value"][:, number], q[:, 0])
    torch.testing.assert_close(net.bins, torch.sign(net.bins) * torch.expm1(
        torch.linspace(-10, 10, 9).abs()), rtol=1e-5, atol=1e-3)  # fmt: skip


@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
def test_the_losses_of_embeddings_are_those_of_loops_over_steps(actions: Any) -> None:
    policy, lengths = made(actions), (2, 5, 3)
    batch = sequences(lengths, actions)
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    for parameter in target.parameters():
        parameter.add_(0.1)
    parts = dict.fromkeys(("dynamics_loss", "reward_loss", "done_loss"), 0.0)
    columns, bins = batch.to_torch(), model.bins.tolist()
    policy._update_count = 1  # the targets stay
    with torch.no_grad():
        for row, length in enumerate(lengths):
            z = model.encode(columns["obs"][row, :1])
            for t in range(length):
                done, z, logit = model.predict(model.join(z, action_of(columns, actions, row, t)))
                reward = columns["reward"][row, t].item()
                above = next(i for i, each in enumerate(bins) if each >= reward)
                share = (reward - bins[above - 1]) / (bins[above] - bins[above - 1])
                log = logit[0].log_softmax(-1)
                seen = target.encode(columns["next_obs"][row, t : t + 1])
                parts["dynamics_loss"] += (z - seen).square().mean().item() / 3
                parts["reward_loss"] -= (
                    (1 - share) * log[above - 1] + share * log[above]
                ).item() / 3
                parts["done_loss"] += (done - columns["done"][row, t]).square().item() / 3
    found = policy.learn_mode.forward(batch)
    for name, wanted in parts.items():
        assert float(found[name]) == pytest.approx(wanted, rel=1e-4), name
    total = parts["dynamics_loss"] + 0.1 * parts["reward_loss"] + 0.1 * parts["done_loss"]
    assert float(found["total_loss"]) == pytest.approx(total, rel=1e-4)
    assert found["value_loss"] is None
    assert "priority" not in found


@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
def test_values_and_policy_learn_from_returns_by_loops(actions: Any) -> None:
    policy, lengths = made(actions), (2, 5, 1)
    learn = policy.get_attribute("cfg").learn
    batch = sequences(lengths, actions)
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    for parameter in target.parameters():
        parameter.add_(0.1)
    policy._update_count, policy._scales = 250, torch.tensor([2.0, 0.7])
    columns, share = batch.to_torch(), 1.0 if actions is BOX else 0.5
    torch.manual_seed(7)
    with torch.no_grad():
        last = [min(length, 3) - 1 for length in lengths]
        after = torch.stack([columns["next_obs"][row, at] for row, at in enumerate(last)])
        z = target.encode(after)
        output = target.policy(z)
        action = output.tanh() if actions is BOX else F.gumbel_softmax(output, tau=10)
        noise = share * torch.clamp(0.2 * torch.randn(action.shape), -0.3, 0.3)
        action = (action + noise).clamp(-1, 1) if actions is BOX else torch.eye(3)[
            (action + noise).argmax(1)]  # fmt: skip
        least = target.q(target.join(z, action)).amin(0)
        wanted, errors = [], []
        for row, at in enumerate(last):
            total = sum(0.9**t * columns["reward"][row, t].item() for t in range(at + 1))
            going = 1 - columns["done"][row, at].item()
            y = (total + 0.9 ** (at + 1) * going * least[row].item() * 0.7) / 2.0
            taken = action_of(columns, actions, row, 0)
            q = model.q(model.join(model.encode(columns["obs"][row, :1]), taken))[:, 0]
            errors.append([abs(float(each) - y) for each in q])
            wanted.append(y)
        huber = [e * e / 2 if e < 1 else e - 0.5 for each in errors for e in each]
    before = {name: each.clone() for name, each in model.state_dict().items()}
    torch.manual_seed(7)
    found = policy.learn_mode.forward(batch)
    assert float(found["value_loss"]) == pytest.approx(sum(huber) / len(huber), rel=1e-4)
    assert found["priority"].tolist() == pytest.approx([max(*e, 1.0) for e in errors], rel=1e-4)
    changed = {key.partition(".")[0] for key, each in model.state_dict().items()
               if not before[key].equal(each)}  # fmt: skip
    assert changed == {"value", "policy"}
    assert learn.min_priority == 1.0
    assert found["encoder_loss"] is None


def test_the_policy_follows_the_gradient_of_the_updated_values() -> None:
    policy, batch = made(learn={"optimizer": {"type": "sgd"}, "learning_rate": 0.1}), sequences(
        (5, 5))  # fmt: skip
    policy._update_count = 250
    model = policy.get_attribute("model")
    old = [each.detach().clone() for each in model.policy.parameters()]
    policy.learn_mode.forward(batch)
    new = [each.detach().clone() for each in model.policy.parameters()]
    for parameter, each in zip(model.policy.parameters(), old, strict=True):
        parameter.data.copy_(each)
    z = model.encode(batch.to_torch()["obs"][:, 0])
    output = model.policy(z)
    loss = -model.q(model.join(z, output.tanh())).mean() + 1e-5 * output.square().mean()
    gradients = torch.autograd.grad(loss, list(model.policy.parameters()))
    for before, after, gradient in zip(old, new, gradients, strict=True):
        torch.testing.assert_close(after, before - 0.1 * gradient, rtol=1e-4, atol=1e-6)


def test_embeddings_and_values_take_turns_and_targets_are_copied() -> None:
    policy, batch = made(learn={"target_update_freq": 2}), sequences((5, 4, 3))
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    kinds, copies = [], []
    for _ in range(8):
        before = {key: each.clone() for key, each in target.state_dict().items()}
        now = {key: each.clone() for key, each in model.state_dict().items()}
        found = policy.learn_mode.forward(batch)
        kinds.append("value" if found["encoder_loss"] is None else "encoder")
        if any(not each.equal(before[key]) for key, each in target.state_dict().items()):
            assert all(each.equal(now[key]) for key, each in target.state_dict().items())
            copies.append(len(kinds))
    assert kinds == ["encoder", "encoder", "value", "value"] * 2
    assert copies == [5]  # at first they are equal


def test_the_unit_of_values_is_the_mean_reward_of_the_buffer() -> None:
    policy, batch = made(learn={"target_update_freq": 1}), sequences((5, 4, 3))
    columns = batch.to_torch()
    found = policy.learn_mode.forward(batch)
    weight, reward = columns["IS"], columns["reward"][:, 0].abs()
    mean = float((weight * reward).sum() / weight.sum())
    assert float(found["reward_scale"]) == pytest.approx(mean, rel=1e-5)
    assert policy._scales.tolist() == pytest.approx([mean, 1.0], rel=1e-5)
    policy.learn_mode.forward(batch)
    batch.columns["reward"] = batch["reward"] * 2
    policy.learn_mode.forward(batch)
    assert policy._scales.tolist() == pytest.approx([2 * mean, mean], rel=1e-5)


def test_rewards_that_are_not_finite_do_not_become_the_unit() -> None:
    policy, batch = made(learn={"target_update_freq": 1}), sequences((5, 4, 3))
    batch.columns["reward"] = np.full_like(batch["reward"], np.nan)
    for _ in range(2):
        policy.learn_mode.forward(batch)
    assert policy._scales.tolist() == [1.0, 1.0]


def test_steps_that_are_none_and_ends_that_are_ignored_do_not_count() -> None:
    found = []
    for filler, ignore in ((0.0, True), (50.0, True), (0.0, False)):
        policy = made(learn={"ignore_done": ignore, "target_update_freq": 1})
        batch = sequences((2, 4, 3))
        for key in ("obs", "next_obs", "action", "reward"):
            column = np.array(batch[key])
            column[~batch["inside"]] = filler
            batch.columns[key] = column
        for _ in range(4):
            policy.learn_mode.forward(batch)
        found.append(policy.get_attribute("model").state_dict())
    assert all(found[0][key].equal(found[1][key]) for key in found[0])
    assert any(not found[0][key].equal(found[2][key]) for key in found[0])


def test_exploration_is_around_the_policy_and_drawn_from_it() -> None:
    obs = np.random.default_rng(0).normal(size=(2000, 4)).astype(np.float32)[:1].repeat(2000, 0)
    seen = EnvBatch(np.arange(2000), obs)
    policy = made(collect={"noise": 0.1})
    best = policy.eval_mode.forward(seen).value["action"]
    drawn = policy.collect_mode.forward(seen).value["action"]
    assert (drawn - best).std(0) == pytest.approx([0.25, 0.25], rel=0.1)  # 2.5 is half the range
    policy = made(CHOICE, collect={"noise": 0.0})
    with torch.no_grad():
        model = policy.get_attribute("model")
        share = model.policy(model.encode(torch.from_numpy(obs[:1])))[0].softmax(-1)
    drawn = policy.collect_mode.forward(seen).value["action"]
    assert np.bincount(drawn, minlength=4)[1:] / 2000 == pytest.approx(share.numpy(), abs=0.05)
    best = policy.eval_mode.forward(seen).value["action"]
    assert (best == 1 + int(share.argmax())).all()


@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
def test_it_learns_the_best_action_of_a_bandit(actions: Any) -> None:
    """Each episode has one step."""
    learn = {"learning_rate": 3e-3, "encoder_learning_rate": 3e-3, "target_update_freq": 20}
    wide = dict.fromkeys(SMALL, 16) | {"bins": 65}
    policy, rng = made(actions, learn=learn, model=wide), np.random.default_rng(0)
    for _ in range(120):
        obs = rng.uniform(-1, 1, (64, 4)).astype(np.float32)
        if actions is BOX:
            action: Any = rng.uniform(-2, 3, (64, 2)).astype(np.float32)
            reward = action[:, 0] - action[:, 1]
        else:
            action = rng.integers(1, 4, 64)
            reward = (action == 2).astype(np.float32)
        columns = {"obs": obs, "next_obs": obs, "action": action, "done": np.ones(64, np.float32)}
        policy.learn_mode.forward(Batch({**columns, "reward": reward.astype(np.float32)}, 64))
    seen = EnvBatch(np.arange(8), np.eye(8, 4, dtype=np.float32) - 0.5)
    chosen = policy.eval_mode.forward(seen).value["action"]
    if actions is BOX:
        assert (np.abs(chosen - [3, -2]) < 0.5).all()
    else:
        assert (chosen == 2).all()


def test_images_are_taken() -> None:
    with pytest.raises(ConfigError, match="float32 from 0 to 255"):
        made(CHOICE, spaces.Box(0, 255, (36, 40, 3), np.float32))
    made(CHOICE, spaces.Box(0, 1, (36, 40, 3), np.float32))
    policy = made(CHOICE, spaces.Box(0, 255, (36, 40, 3), np.uint8))
    obs = np.random.default_rng(0).integers(0, 256, (2, 36, 40, 3)).astype(np.uint8)
    acted = policy.collect_mode.forward(EnvBatch(np.arange(2), obs)).value["action"]
    assert all(each in CHOICE for each in acted)
    x = torch.from_numpy(obs).movedim(-1, 1) / 255 - 0.5
    part = policy.get_attribute("model").encoder["state"]
    for index, each in enumerate(part.convolutions):
        x = F.elu(F.conv2d(x, each.weight, each.bias, stride=1 if index == 3 else 2))
    wanted = F.elu(F.layer_norm(
        x.flatten(1) @ part.last.weights[0][0] + part.last.biases[0][0], (8,)))  # fmt: skip
    torch.testing.assert_close(
        policy.get_attribute("model").encode(torch.from_numpy(obs)), wanted, rtol=1e-4, atol=1e-5
    )
    truths, encode = torch.from_numpy(obs > 99), policy.get_attribute("model").encode
    assert torch.equal(encode(truths), encode(truths.float()))  # from 0 to 1: not divided


@pytest.mark.parametrize("shape", [(), (2, 2)])
def test_observations_that_are_no_vectors_are_taken_as_flat_ones(shape: tuple[int, ...]) -> None:
    rng, found = np.random.default_rng(0), []
    obs = rng.uniform(-1, 1, (3, 5, *shape)).astype(np.float32)
    for flat in (False, True):
        size = (int(np.prod(shape)),) if flat else shape
        policy, batch = made(BOX, spaces.Box(-1, 1, size, np.float32)), sequences((2, 5, 3))
        batch.columns["obs"] = batch.columns["next_obs"] = obs.reshape(3, 5, *size)
        seen = EnvBatch(np.arange(3), obs[:, 0].reshape(3, *size))
        acted = policy.eval_mode.forward(seen).value["action"]
        found.append((acted, float(policy.learn_mode.forward(batch)["total_loss"])))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


def test_a_network_of_nan_does_not_act() -> None:
    policy = made()
    for parameter in policy.get_attribute("model").policy.parameters():
        parameter.data.fill_(torch.nan)
    with pytest.raises(NonFiniteError, match="NaN"):
        policy.eval_mode.forward(EnvBatch(np.arange(1), np.zeros((1, 4), np.float32)))


@pytest.mark.parametrize(
    ("config", "actions", "problem"),
    [
        ({}, spaces.MultiDiscrete([2, 3]), "one discrete action"),
        ({}, spaces.Box(-np.inf, np.inf, (2,)), "bound"),
        ({"gumbel_tau": 5.0}, BOX, "gumbel_tau"),
        ({"nstep": 6}, BOX, "unroll_len"),
        ({"priority": False, "learn": {"min_priority": 0.5}}, BOX, "min_priority"),
        ({"priority_IS_weight": True}, BOX, "Huber"),
        ({"priority": False, "other": {"replay_buffer": {"alpha": 0.7}}}, BOX, "alpha: has no"),
        ({"other": {"replay_buffer": {"beta": 0.2}}}, BOX, "beta: has no effect"),
        ({"other": {"replay_buffer": {"type": "sequence"}}}, BOX, "already"),
        ({"other": {"replay_buffer": {"type": "naive"}}}, BOX, "priority=False"),
        ({"other": {"replay_buffer": {"replay_buffer_size": 255}}}, BOX, "must be <= 255"),
        ({"model": {**SMALL, "bins": 10}}, BOX, "odd"),
        ({"collect": {"n_episode": 2}}, BOX, "n_sample"),
    ],
)
def test_what_it_does_not_do_is_refused(config: Any, actions: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        made(actions, **config)


def test_several_observations_and_foreign_networks_are_refused() -> None:
    with pytest.raises(ConfigError, match="flat_obs"):
        made(BOX, spaces.Dict(a=VECTOR, b=VECTOR))
    with pytest.raises(UsageError, match="MRQNet"):
        MRQPolicy(made().get_attribute("cfg"), torch.nn.Linear(4, 2))


def test_a_sequence_begins_at_each_step_and_ends_with_its_episode() -> None:
    policy, shape = made(nstep=4), (9, 2)
    assert policy.collect_mode.get_attribute("sample_len") == 5
    assert policy.collect_mode.get_attribute("sample_stride") == 1
    end = np.zeros(shape, np.bool_)
    end[3, 0] = end[7, 1] = True
    step = np.arange(18, dtype=np.float32).reshape(shape)
    obs = np.repeat(step[..., None], 4, 2)
    block = Batch(
        {"obs": obs, "next_obs": obs + 0.5, "action": np.zeros((*shape, 2), np.float32),
         "reward": step, "done": end & (np.arange(2) == 0), "end": end}, 9,
    )  # fmt: skip
    samples = policy.collect_mode.get_train_sample(block)
    assert samples["reward"][:, 0].tolist() == step[:5].ravel().tolist()
    lengths = samples["inside"].sum(1).reshape(5, 2)
    assert lengths[:, 0].tolist() == [4, 3, 2, 1, 5]
    assert lengths[:, 1].tolist() == [5, 5, 5, 5, 4]
    assert (samples["inside"][:, 0]).all()
    last = samples["done"].reshape(5, 2, 5)[3, 0]
    assert last[0] == 1


@pytest.mark.parametrize("env", ["pendulum", "cartpole"])
def test_a_resumed_run_equals_an_uninterrupted_one(env: str, tmp_path: Path) -> None:
    options = [
        *(f"policy.model.{name}={size}" for name, size in SMALL.items()),
        *("policy.learn.batch_size=8", "policy.collect.random_collect_size=20"),
        "policy.learn.target_update_freq=7",
    ]
    one, two = same_after_resume("mrq", env, options, tmp_path, 72)
    assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("env", ["pendulum", "cartpole"])
def test_the_preset_fits_its_task(env: str) -> None:
    pytest.importorskip("dicore_contrib_envs")
    compiled = compile_config(preset=f"{env}_mrq")
    assert (compiled.policy.type, compiled.env.type) == ("mrq", env)
