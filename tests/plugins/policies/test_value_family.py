"""The relatives of DQN: their updates from the outside, noise, mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dicore import build
from dicore.config import as_config
from dicore.data import Batch
from dicore.errors import ConfigError, UsageError
from dicore.run.launch import launch
from dicore.run.random import seed_everything
from dicore_plugins.models import BDQ, C51, DQN, FQF, IQN, QRDQN, SQN
from dicore_plugins.models.encoders.noisy import NoisyMLP
from dicore_plugins.policies import (
    BDQPolicy,
    C51Policy,
    DQNPolicy,
    FQFPolicy,
    IQNPolicy,
    MDQNPolicy,
    QRDQNPolicy,
    SQLPolicy,
    SQNPolicy,
)
from dicore_plugins.policies.value.rainbow_config import RainbowConfig

ROWS, OBS, ACTIONS = 8, 3, 4
GAMMA = 0.9


def rows(actions: Any = ACTIONS) -> Batch:
    rng = np.random.default_rng(0)
    shape = (ROWS,) if isinstance(actions, int) else (ROWS, len(actions))
    return Batch(
        {
            "obs": rng.normal(size=(ROWS, OBS)).astype(np.float32),
            "next_obs": rng.normal(size=(ROWS, OBS)).astype(np.float32),
            "action": rng.integers(0, actions, shape),
            "reward": rng.normal(size=ROWS).astype(np.float32),
            "done": (rng.random(ROWS) < 0.4).astype(np.float32),
            "weight": rng.random(ROWS).astype(np.float32),
        }
    )


def made(cls: Any, model: Any, **options: Any) -> Any:
    seed_everything(0)
    cfg = {"discount_factor": GAMMA, "nstep": 1, "collect": {"act_by_numpy": False}, **options}
    policy = cls(cfg, model=model)
    with torch.no_grad():
        for parameter in policy._target_model.parameters():
            parameter.add_(0.05)
    return policy


def outputs(policy: Any, batch: Batch) -> tuple[Any, Any, Any]:
    """Returns the outputs of obs by the network, and of next_obs by both."""
    obs, after = (torch.from_numpy(batch[key]) for key in ("obs", "next_obs"))
    with torch.no_grad():
        return (
            policy._model.distribution(obs)[0].double().numpy(),
            policy._target_model.distribution(after)[0].double().numpy(),
            policy._model.q(after).double().numpy(),
        )


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_an_update_of_c51_row_by_row() -> None:
    policy, batch = made(C51Policy, C51(7, -2.0, 2.0, obs_shape=OBS, action_shape=ACTIONS)), rows()
    logit, after, chooser = outputs(policy, batch)
    atoms, losses, divergences = np.linspace(-2, 2, 7), [], []
    for row in range(ROWS):
        best = chooser[row].argmax()
        moved = np.clip(batch["reward"][row] + GAMMA * (1 - batch["done"][row]) * atoms, -2, 2)
        b = (moved + 2) / (4 / 6)
        near = np.clip(1 - np.abs(b[:, None] - np.arange(7)), 0, 1)
        target = softmax(after[row, best]) @ near
        log_p = np.log(softmax(logit[row, batch["action"][row]]))
        losses.append(-(target * log_p).sum() * batch["weight"][row])
        own = np.where(target > 0, target * np.log(np.maximum(target, 1e-300)), 0).sum()
        divergences.append(own - (target * log_p).sum())
    result = policy.learn_mode.forward(batch)
    np.testing.assert_allclose(result["total_loss"], np.mean(losses), rtol=1e-4)
    np.testing.assert_allclose(result["priority"], divergences, atol=1e-4)


def test_an_update_of_qrdqn_row_by_row() -> None:
    policy, batch = made(QRDQNPolicy, QRDQN(5, obs_shape=OBS, action_shape=ACTIONS)), rows()
    quantile, after, chooser = outputs(policy, batch)
    fraction, losses, errors = (np.arange(5) + 0.5) / 5, [], []
    for row in range(ROWS):
        best = chooser[row].argmax()
        target = batch["reward"][row] + GAMMA * (1 - batch["done"][row]) * after[row, best]
        own = quantile[row, batch["action"][row]]
        u = target[None] - own[:, None]
        huber = np.where(np.abs(u) <= 1, u * u / 2, np.abs(u) - 0.5)
        loss = (np.abs(fraction[:, None] - (u < 0)) * huber).mean(1).sum()
        losses.append(loss * batch["weight"][row])
        errors.append(abs(target.mean() - own.mean()))
    result = policy.learn_mode.forward(batch)
    np.testing.assert_allclose(result["total_loss"], np.mean(losses), rtol=1e-4)
    np.testing.assert_allclose(result["priority"], errors, atol=1e-5)


def test_an_update_of_iqn_row_by_row() -> None:
    policy = made(
        IQNPolicy,
        IQN(4, 6, obs_shape=OBS, action_shape=ACTIONS),
        learn={"num_quantiles": 3, "num_target_quantiles": 2},
    )
    batch, torch_state = rows(), torch.get_rng_state()
    after_fraction, fraction = torch.rand(ROWS, 2), torch.rand(ROWS, 3)
    obs, after = (torch.from_numpy(batch[key]) for key in ("obs", "next_obs"))
    with torch.no_grad():
        chooser = policy._model.q(after).numpy()
        quantile = policy._model.distribution(obs, fraction)[0].double().numpy()
        new = policy._target_model.distribution(after, after_fraction)[0].double().numpy()
    losses = []
    for row in range(ROWS):
        target = (
            batch["reward"][row]
            + GAMMA * (1 - batch["done"][row]) * (new[row, chooser[row].argmax()])
        )
        u = target[None] - quantile[row, batch["action"][row]][:, None]
        huber = np.where(np.abs(u) <= 1, u * u / 2, np.abs(u) - 0.5)
        side = np.abs(fraction[row].numpy()[:, None] - (u < 0))
        losses.append((side * huber).mean(1).sum() * batch["weight"][row])
    torch.set_rng_state(torch_state)
    result = policy.learn_mode.forward(batch)
    np.testing.assert_allclose(result["total_loss"], np.mean(losses), rtol=1e-4)


def test_iqn_embeds_fractions_by_cosines() -> None:
    head = IQN(4, 6, obs_shape=OBS, action_shape=ACTIONS).heads[0]
    x, fraction = torch.randn(2, 64), torch.tensor([0.3, 0.9])
    layer = head.embed.layers[0]
    basis = torch.cos(torch.pi * torch.arange(6) * fraction[:, None])
    phi = torch.relu(basis @ layer.weight.T + layer.bias)
    out = head.advantage.layers[0]
    wanted = (x[:, None] * phi) @ out.weight.T + out.bias
    torch.testing.assert_close(head.outputs(x, fraction), wanted.transpose(1, 2))
    assert head.fraction.tolist() == [0.125, 0.375, 0.625, 0.875]


def test_an_update_of_mdqn_row_by_row() -> None:
    policy, batch = made(MDQNPolicy, DQN(OBS, ACTIONS)), rows()
    tau, alpha = 0.03, 0.9
    obs, after = (torch.from_numpy(batch[key]) for key in ("obs", "next_obs"))
    with torch.no_grad():
        q = policy._model(obs)["logit"].double().numpy()
        old, new = (policy._target_model(each)["logit"].double().numpy() for each in (obs, after))
    target = []
    for row in range(ROWS):
        log_pi = tau * np.log(np.maximum(softmax(old[row] / tau), 1e-300))
        bonus = np.clip(log_pi[batch["action"][row]], -1, 0)
        p = softmax(new[row] / tau)
        value = (p * (new[row] - tau * np.log(np.maximum(p, 1e-300)))).sum()
        target.append(
            batch["reward"][row] + alpha * bonus + GAMMA * (1 - batch["done"][row]) * value
        )
    result = policy.learn_mode.forward(batch)
    error = np.abs(q[np.arange(ROWS), batch["action"]] - target)
    np.testing.assert_allclose(result["priority"], error, atol=1e-4)


def test_an_update_of_sql_row_by_row() -> None:
    policy, batch = made(SQLPolicy, DQN(OBS, ACTIONS), learn={"alpha": 0.5}), rows()
    obs, after = (torch.from_numpy(batch[key]) for key in ("obs", "next_obs"))
    with torch.no_grad():
        q = policy._model(obs)["logit"].double().numpy()
        new = policy._target_model(after)["logit"].double().numpy()
    value = 0.5 * np.log(np.exp(new / 0.5).sum(1))
    y = batch["reward"] + GAMMA * (1 - batch["done"]) * value
    error = np.abs(q[np.arange(ROWS), batch["action"]] - y)
    result = policy.learn_mode.forward(batch)
    np.testing.assert_allclose(result["target_q_value"], y, atol=1e-5)
    np.testing.assert_allclose(result["priority"], error, atol=1e-5)
    huber = np.where(error <= 1, error**2 / 2, error - 0.5) * batch["weight"]
    np.testing.assert_allclose(result["total_loss"], huber.mean(), rtol=1e-4)


def test_an_update_of_fqf_row_by_row() -> None:
    model = FQF(4, 6, obs_shape=OBS, action_shape=ACTIONS)
    with torch.no_grad():
        for each in model.proposal():
            each.normal_()
    learn = {"fraction_entropy_weight": 0.1, "fraction_learning_rate": 0.1}
    policy, batch = made(FQFPolicy, model, learn=learn), rows()
    obs, after = (torch.from_numpy(batch[key]) for key in ("obs", "next_obs"))
    head, target_head = model.heads[0], policy._target_model.heads[0]
    with torch.no_grad():
        features = model.features(obs)
        tau = head.boundary(features)
        middle = (tau[:, 1:] + tau[:, :-1]) / 2
        at_middle = head.outputs(features, middle).numpy()
        at_tau = head.outputs(features, tau).numpy()
        new = target_head.outputs(policy._target_model.features(after), middle).double().numpy()
        chooser = model.q(after).numpy()
        x, own = model.features(after), head.boundary(model.features(after))
        mean = head.outputs(x, (own[:, 1:] + own[:, :-1]) / 2)
        wanted = (mean * own.diff(dim=1)[:, None]).sum(2)
        np.testing.assert_allclose(chooser, wanted, rtol=1e-5)
    losses, slopes = [], []
    for row in range(ROWS):
        a = batch["action"][row]
        target = (
            batch["reward"][row]
            + GAMMA * (1 - batch["done"][row]) * (new[row, chooser[row].argmax()])
        )
        f, m = at_tau[row, a], at_middle[row, a]
        u = target[None] - m[:, None]
        huber = np.where(np.abs(u) <= 1, u * u / 2, np.abs(u) - 0.5)
        side = np.abs(middle[row].numpy()[:, None] - (u < 0))
        loss = (side * huber).mean(1).sum()
        slope = np.abs(f[1:-1] - m[:-1]) - np.abs(f[1:-1] - m[1:])
        slopes.append(slope * batch["weight"][row] / ROWS)
        losses.append((loss + (slope * tau[row, 1:-1].numpy()).sum()) * batch["weight"][row])
    width = tau.diff(dim=1).numpy()
    entropy = -(width * np.log(width)).sum(1).mean()
    before = [each.detach().clone() for each in model.proposal()]
    result = policy.learn_mode.forward(batch)
    np.testing.assert_allclose(result["total_loss"], np.mean(losses) - 0.1 * entropy, rtol=1e-4)
    assert all(not torch.equal(*each) for each in zip(before, model.proposal(), strict=True))
    # no gradient of the fractions reaches the rest: the same update without them is the same
    twin = FQF(4, 6, obs_shape=OBS, action_shape=ACTIONS)
    assert torch.allclose(twin.heads[0].boundary(torch.zeros(1, 64)).diff(), torch.tensor(0.25))


@pytest.mark.parametrize("theta", [None, 0.5])
def test_the_fractions_of_the_target_of_fqf_follow(theta: float | None) -> None:
    learn = {"target_update_freq": 1, "target_theta": theta, "fraction_learning_rate": 0.1}
    policy = made(FQFPolicy, FQF(4, 6, obs_shape=OBS, action_shape=ACTIONS), learn=learn)
    before = [each.clone() for each in policy._target_model.proposal()]
    policy.learn_mode.forward(rows())
    for mine, theirs, old in zip(
        policy._target_model.proposal(), policy._model.proposal(), before, strict=True
    ):
        torch.testing.assert_close(mine, torch.lerp(old, theirs.detach(), theta or 1.0))


def test_an_update_of_bdq_row_by_row() -> None:
    policy = made(BDQPolicy, BDQ(obs_shape=OBS, action_shape=[3, 2]))
    batch = rows((3, 2))
    obs, after = (torch.from_numpy(batch[key]) for key in ("obs", "next_obs"))
    with torch.no_grad():
        q = [each.double().numpy() for each in policy._model.q(obs)]
        new = [each.double().numpy() for each in policy._target_model.q(after)]
        chooser = [each.numpy() for each in policy._model.q(after)]
    losses, errors = [], []
    for row in range(ROWS):
        best = [new[head][row, chooser[head][row].argmax()] for head in range(2)]
        y = batch["reward"][row] + GAMMA * (1 - batch["done"][row]) * np.mean(best)
        error = np.abs([q[head][row, batch["action"][row, head]] - y for head in range(2)])
        losses.append(np.where(error <= 1, error**2 / 2, error - 0.5).mean() * batch["weight"][row])
        errors.append(error.mean())
    result = policy.learn_mode.forward(batch)
    np.testing.assert_allclose(result["total_loss"], np.mean(losses), rtol=1e-4)
    np.testing.assert_allclose(result["priority"], errors, atol=1e-4)


def test_the_heads_of_bdq_share_a_value_and_a_scaled_gradient() -> None:
    torch.manual_seed(0)
    model = BDQ(obs_shape=OBS, action_shape=[3, 2])
    features = model.features(torch.ones(1, OBS)).detach().requires_grad_()
    obs = torch.ones(1, OBS)
    value = model.value(model.features(obs))
    for q, head in zip(model.q(obs), model.heads, strict=True):
        advantage = head(model.features(obs))
        torch.testing.assert_close(q, value + advantage - advantage.mean())
        torch.testing.assert_close(q.mean(1, keepdim=True), value)
    model.q(obs)[0].sum().backward()
    found = model.encoder.layers[0].weight.grad.clone()
    model.zero_grad()
    x = model.features(obs)
    a = model.heads[0](x)
    (model.value(x) + a - a.mean()).sum().backward()
    torch.testing.assert_close(found, model.encoder.layers[0].weight.grad / 3)
    assert features.grad is None


@pytest.mark.parametrize("auto", [True, False])
def test_an_update_of_sqn_row_by_row(auto: bool) -> None:
    learn = {"auto_temperature": auto, "target_entropy": 0.7}
    policy = made(SQNPolicy, SQN(0.5, obs_shape=OBS, action_shape=ACTIONS), learn=learn)
    batch = rows()
    obs, after = (torch.from_numpy(batch[key]) for key in ("obs", "next_obs"))
    log_alpha = float(policy._model.log_temperature.detach())
    alpha = np.exp(log_alpha)
    with torch.no_grad():
        both = [each.double().numpy() for each in policy._model.both(obs)]
        new = np.min([each.double().numpy() for each in policy._target_model.both(after)], 0)
    losses, errors, entropies = [], [], []
    for row in range(ROWS):
        p = softmax(new[row] / alpha)
        value = (p * (new[row] - alpha * np.log(p))).sum()
        y = batch["reward"][row] + GAMMA * (1 - batch["done"][row]) * value
        error = np.abs([q[row, batch["action"][row]] - y for q in both])
        losses.append(np.where(error <= 1, error**2 / 2, error - 0.5).sum() * batch["weight"][row])
        errors.append(error.mean())
        p = softmax(np.min([q[row] for q in both], 0) / alpha)
        entropies.append(-(p * np.log(p)).sum())
    result = policy.learn_mode.forward(batch)
    own = log_alpha * (np.mean(entropies) - 0.7) if auto else 0.0
    np.testing.assert_allclose(result["total_loss"], np.mean(losses) + own, rtol=1e-4)
    np.testing.assert_allclose(result["priority"], errors, atol=1e-4)
    moved = float(policy._model.log_temperature.detach()) - log_alpha
    assert np.sign(moved) == (np.sign(0.7 - np.mean(entropies)) if auto else 0)


def test_the_target_entropy_of_sqn_is_that_of_the_allowed_actions() -> None:
    parts = ((("vector",), OBS, (), ()),)
    policy = made(SQNPolicy, SQN(0.5, obs_shape=OBS, obs_parts=parts, action_shape=ACTIONS))
    batch, mask = rows(), np.ones((ROWS, ACTIONS), np.int8)
    mask[::2, 1:3] = 0
    seen = {key: {"vector": batch[key], "action_mask": mask} for key in ("obs", "next_obs")}
    batch = Batch({**batch.columns, **seen, "action": batch["action"] * 0}).to_torch()
    alpha = policy._model.log_temperature.exp().detach()
    with torch.no_grad():
        q = torch.minimum(*policy._model.both(batch["obs"])) / alpha
    entropy = torch.distributions.Categorical(
        logits=q.masked_fill(torch.from_numpy(mask) == 0, -1e8)
    ).entropy()
    goal = 0.2 * (np.log(2) + np.log(4)) / 2
    policy._optimizer.zero_grad()
    policy._loss(batch, None)[0].backward()
    slope = policy._model.log_temperature.grad.item()
    assert slope == pytest.approx(entropy.mean().item() - goal, rel=1e-4)


@pytest.mark.parametrize("name", ["sql", "sqn"])
def test_soft_policies_act_by_their_temperature(name: str) -> None:
    seed_everything(0)
    model: Any
    if name == "sql":
        model = DQN(obs_shape=OBS, action_shape=ACTIONS)
        policy: Any = SQLPolicy({"learn": {"alpha": 0.5}}, model=model)
    else:
        model = SQN(0.5, obs_shape=OBS, action_shape=ACTIONS)
        policy = SQNPolicy({"discount_factor": GAMMA}, model=model)
    seen = np.ones(OBS, np.float32)
    chosen = policy.collect_mode.forward(dict.fromkeys(range(4000), seen))
    with torch.no_grad():
        p = torch.softmax(model.q(torch.from_numpy(seen)[None])[0] / 0.5, 0).numpy()
    counts = np.bincount(chosen.value["action"], minlength=ACTIONS)
    assert (np.abs(counts - 4_000 * p) < 4 * np.sqrt(4_000 * p * (1 - p))).all()
    best = policy.eval_mode.forward({0: seen}).value["action"]
    assert best.tolist() == [p.argmax()]


@pytest.mark.parametrize(
    ("cls", "model"),
    [
        (DQNPolicy, DQN),
        (QRDQNPolicy, QRDQN),
        (FQFPolicy, FQF),
        (MDQNPolicy, DQN),
        (SQLPolicy, DQN),
        (SQNPolicy, SQN),
    ],
)
@pytest.mark.parametrize("heads", ["one", "list", "array"])
def test_targets_choose_no_masked_action(cls: Any, model: Any, heads: str) -> None:
    """The values of a masked action may be anything; a mask without any action has no effect."""
    actions = ACTIONS if heads == "one" else (ACTIONS, ACTIONS)
    parts = ((("vector",), OBS, (), ()),)
    policy = made(cls, model(obs_shape=OBS, obs_parts=parts, action_shape=actions))
    batch = rows(actions)
    mask = np.ones((ROWS, ACTIONS), np.int8)
    mask[:, 1] = 0
    mask[2], batch["done"][2] = 0, 1
    masks: Any = {"one": mask, "list": [mask, mask], "array": np.stack([mask, mask], 1)}[heads]
    seen = {key: {"vector": batch[key], "action_mask": masks} for key in ("obs", "next_obs")}
    taken = np.where(batch["action"] == 1, 0, batch["action"])
    batch = Batch({**batch.columns, **seen, "action": taken}).to_torch()
    before = policy._loss(batch, None)[2]
    with torch.no_grad():
        for net in (*policy._model.modules(), *policy._target_model.modules()):
            if hasattr(net, "advantage"):
                net.advantage.layers[-1].bias.view(ACTIONS, -1)[1] += 1e4
    torch.testing.assert_close(policy._loss(batch, None)[2], before)


@pytest.mark.parametrize(
    ("cls", "model"),
    [
        (C51Policy, C51),
        (QRDQNPolicy, QRDQN),
        (IQNPolicy, IQN),
        (MDQNPolicy, DQN),
        (SQLPolicy, DQN),
        (FQFPolicy, FQF),
        (BDQPolicy, BDQ),
    ],
)
def test_several_heads_are_trained_by_their_own_actions(cls: Any, model: Any) -> None:
    policy = made(cls, model(obs_shape=OBS, action_shape=[3, 2]), nstep=1)
    batch = rows((3, 2))
    result = policy.learn_mode.forward(batch)
    assert result["priority"].shape == (ROWS,)
    first = policy._model.heads[0].advantage.layers[0].bias.grad
    count = first.numel() // 3
    never = set(range(3)) - set(batch["action"][:, 0].tolist())
    grads = first.reshape(3, count)
    assert all(grads[each].abs().sum() == 0 for each in never)
    assert grads.abs().sum() > 0


# ---- noise


def test_noise_is_that_of_the_paper() -> None:
    torch.manual_seed(0)
    layer = NoisyMLP((4, 3))
    (inner,) = layer.layers
    assert torch.equal(inner.weight_sigma, torch.full((3, 4), 0.5 / 2))
    x, drawn = torch.randn(1, 4), []
    for _ in range(4000):
        layer.reset_noise()
        drawn.append(layer(x)[0])
    values = torch.stack(drawn)
    mean = layer.eval()(x)[0]
    # E[f(e)^2] = E|e| = sqrt(2 / pi), and the noise of inputs and outputs is independent
    share = (2 / np.pi) ** 0.5
    wanted = 0.25**2 * ((x**2).sum() * share * share + share)
    torch.testing.assert_close(values.mean(0), mean, atol=0.03, rtol=0)
    torch.testing.assert_close(values.var(0), wanted.detach().expand(3), rtol=0.15, atol=0)


def test_rainbow_explores_by_noise_and_is_evaluated_without() -> None:
    seed_everything(0)
    cfg = as_config({"model": {"obs_shape": OBS, "action_shape": ACTIONS}}, RainbowConfig)
    policy = cfg.build(None)
    obs = {env_id: np.full(OBS, env_id, np.float32) for env_id in range(3)}
    collected = [policy.collect_mode.forward(obs).value["logit"] for _ in range(3)]
    assert not np.array_equal(collected[0], collected[1])
    tested = [policy.eval_mode.forward(obs).value["logit"] for _ in range(2)]
    policy.collect_mode.forward(obs)
    tested.append(policy.eval_mode.forward(obs).value["logit"])
    assert np.array_equal(tested[0], tested[1])
    assert np.array_equal(tested[0], tested[2])
    losses = [float(policy.learn_mode.forward(rows())["total_loss"]) for _ in range(2)]
    assert losses[0] != losses[1]


def test_noise_goes_on_after_a_resume() -> None:
    cfg = as_config({"model": {"obs_shape": OBS, "action_shape": ACTIONS}}, RainbowConfig)
    results = []
    for again in (False, True):
        seed_everything(0)
        policy = cfg.build(None)
        policy.learn_mode.forward(rows())
        if again:
            state, kept = policy.learn_mode.state_dict(), torch.get_rng_state()
            policy = cfg.build(None)
            policy.learn_mode.load_state_dict(state)
            torch.set_rng_state(kept)
        policy.learn_mode.forward(rows())
        results.append(torch.cat([p.detach().reshape(-1) for p in policy._model.parameters()]))
    assert torch.equal(*results)


# ---- by name


@pytest.mark.parametrize(
    "name", ["bdq", "c51", "fqf", "iqn", "qrdqn", "rainbow", "sql", "sqn", "mdqn"]
)
def test_the_default_network_is_built_and_acts_by_name(name: str) -> None:
    seed_everything(0)
    model = {"obs_shape": OBS, "action_shape": ACTIONS}
    policy = build("policy", {"type": name, "model": model})
    wanted = "dqn" if name in ("mdqn", "sql") else name
    assert policy.get_attribute("cfg").model.type == wanted
    chosen = policy.eval_mode.forward({0: np.zeros(OBS, np.float32)}).value
    assert chosen["logit"].shape == (1, ACTIONS)


@pytest.mark.parametrize(
    ("preset", "policy", "buffer"),
    [
        pytest.param("cartpole_c51", "c51", "naive", marks=pytest.mark.soak),  # also contrib_envs
        pytest.param("cartpole_ddqn", "ddqn", "naive", marks=pytest.mark.soak),  # also contrib_envs
        ("cartpole_fqf", "fqf", "naive"),
        ("cartpole_sql", "sql", "naive"),
        ("cartpole_sqn", "sqn", "naive"),
        ("two_step_bdq", "bdq", "naive"),
        ("t_maze_r2d2", "r2d2", "naive"),
        pytest.param("cartpole_iqn", "iqn", "naive", marks=pytest.mark.soak),  # also contrib_envs
        pytest.param("cartpole_mdqn", "mdqn", "naive", marks=pytest.mark.soak),  # also contrib_envs
        pytest.param(
            "cartpole_qrdqn", "qrdqn", "naive", marks=pytest.mark.soak
        ),  # also contrib_envs
        ("cartpole_rainbow", "rainbow", "advanced"),
    ],
)
def test_the_presets_train(preset: str, policy: str, buffer: str, tmp_path: Path) -> None:
    name, _, algorithm = preset.rpartition("_")
    outcome = launch(
        env=name,
        policy=algorithm,
        seed=0,
        exp_name=str(tmp_path / "run"),
        max_env_step=700,
        overrides=["pipeline.logger=[]", "env.evaluator_env_num=2", "env.n_evaluator_episode=2",
                   *(["policy.learn.update_per_collect=16"] if name == "cartpole" else [])],
    )  # fmt: skip
    cfg = json.loads((tmp_path / "run" / "config.json").read_text())["config"]["policy"]
    assert (cfg["type"], cfg["other"]["replay_buffer"]["type"]) == (policy, buffer)
    assert outcome.run.result.train_iter >= 16


def resumes_exactly(
    folder: Path, env: str, policy: str, steps: tuple[int, int], *overrides: str
) -> None:
    """Asserts that a run that is stopped and resumed has the parameters of one that is not."""

    def train(name: str, budget: int, *, resume: bool = False) -> Any:
        given: dict[str, Any] = {
            "exp_name": str(folder / name), "env": env, "policy": policy, "seed": 0,
            "overrides": ["pipeline.logger=[]", "env.stop_value=inf", "env.n_evaluator_episode=1",
                          "env.evaluator_env_num=1", *overrides],
        }  # fmt: skip
        given = {"resume": str(folder / name)} if resume else given
        return launch(**given, max_env_step=budget)

    whole, _ = train("whole", steps[1]), train("half", steps[0])
    rest = train("half", steps[1], resume=True)
    assert rest.run.result.train_iter == whole.run.result.train_iter >= 4
    one, two = (each.policy.get_attribute("model").state_dict() for each in (whole, rest))
    assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize(
    ("policy", "steps", "option"),
    [
        ("fqf", (1040, 1552), "update_per_collect=4"),  # where a collect ends
        ("sqn", (1024, 1536), "update_per_collect=4"),
        ("pqn", (1024, 1536), "epoch_per_collect=1"),
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(
    policy: str, steps: tuple[int, int], option: str, tmp_path: Path
) -> None:
    resumes_exactly(tmp_path, "cartpole", policy, steps, f"policy.learn.{option}")


# ---- mistakes


@pytest.mark.parametrize(
    ("cls", "options", "problem"),
    [
        (MDQNPolicy, {"nstep": 3}, "nstep: MDQNConfig adds the log policy to each single reward"),
        (MDQNPolicy, {"learn": {"double": True}}, "learn.double: MDQNConfig has no greedy action"),
        (SQLPolicy, {"learn": {"double": True}}, "learn.double: SQLConfig has no greedy action"),
        (SQNPolicy, {"learn": {"double": True}}, "learn.double: SQNConfig has no greedy action"),
        (BDQPolicy, {"model": {"dueling": False}}, "dueling: the heads of bdq share"),
        (C51Policy, {"model": {"v_min": 3.0, "v_max": 3.0}}, "v_min: must be < v_max = 3.0"),
    ],
)
def test_options_that_do_not_fit(cls: Any, options: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        cls({"model": {"obs_shape": OBS, "action_shape": ACTIONS}, **options})


@pytest.mark.parametrize(
    ("cls", "model", "text"),
    [
        (C51Policy, DQN, "no `distribution`"),
        (FQFPolicy, IQN, "no `proposal`"),
        (SQNPolicy, DQN, "no `both`"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(cls: Any, model: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        cls({}, model=model(obs_shape=OBS, action_shape=ACTIONS))


@pytest.mark.parametrize(("name", "dueling"), [("ddqn", False), ("dueling", True)])
def test_variants_of_dqn_have_names(name: str, dueling: bool) -> None:
    policy = build("policy", {"type": name, "model": {"obs_shape": OBS, "action_shape": ACTIONS}})
    cfg = policy.get_attribute("cfg")
    assert (cfg.learn.double, cfg.model.dueling, type(policy)) == (True, dueling, DQNPolicy)
