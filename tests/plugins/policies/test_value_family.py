"""C51, QR-DQN, Munchausen DQN and Rainbow: their updates from the outside, noise, mistakes."""

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
from dicore_plugins.models import C51, DQN, IQN, QRDQN
from dicore_plugins.models.encoders.noisy import NoisyMLP
from dicore_plugins.policies import C51Policy, IQNPolicy, MDQNPolicy, QRDQNPolicy
from dicore_plugins.policies.rainbow.config import RainbowConfig

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


@pytest.mark.parametrize(
    ("cls", "model"),
    [(C51Policy, C51), (QRDQNPolicy, QRDQN), (IQNPolicy, IQN), (MDQNPolicy, DQN)],
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


@pytest.mark.parametrize("name", ["c51", "iqn", "qrdqn", "rainbow", "mdqn"])
def test_the_default_network_is_built_and_acts_by_name(name: str) -> None:
    seed_everything(0)
    model = {"obs_shape": OBS, "action_shape": ACTIONS}
    policy = build("policy", {"type": name, "model": model})
    wanted = "dqn" if name == "mdqn" else name
    assert policy.get_attribute("cfg").model.type == wanted
    chosen = policy.eval_mode.forward({0: np.zeros(OBS, np.float32)}).value
    assert chosen["logit"].shape == (1, ACTIONS)


@pytest.mark.parametrize(
    ("preset", "policy", "buffer"),
    [
        ("cartpole_c51", "c51", "naive"),
        ("cartpole_iqn", "iqn", "naive"),
        ("cartpole_mdqn", "mdqn", "naive"),
        ("cartpole_qrdqn", "qrdqn", "naive"),
        ("cartpole_rainbow", "rainbow", "advanced"),
    ],
)
def test_the_presets_train(preset: str, policy: str, buffer: str, tmp_path: Path) -> None:
    name, _, algorithm = preset.partition("_")
    outcome = launch(
        env=name,
        policy=algorithm,
        seed=0,
        exp_name=str(tmp_path / "run"),
        max_env_step=700,
        overrides=["pipeline.logger=[]", "env.evaluator_env_num=2", "env.n_evaluator_episode=2"],
    )
    cfg = json.loads((tmp_path / "run" / "config.json").read_text())["config"]["policy"]
    assert (cfg["type"], cfg["other"]["replay_buffer"]["type"]) == (policy, buffer)
    assert outcome.run.result.train_iter >= 128


# ---- mistakes


@pytest.mark.parametrize(
    ("cls", "options", "problem"),
    [
        (MDQNPolicy, {"nstep": 3}, "nstep: mdqn adds the log policy to each single reward"),
        (MDQNPolicy, {"learn": {"double": True}}, "learn.double: mdqn has no greedy action"),
        (C51Policy, {"model": {"v_min": 3.0, "v_max": 3.0}}, "v_min: must be < v_max = 3.0"),
    ],
)
def test_options_that_do_not_fit(cls: Any, options: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        cls({"model": {"obs_shape": OBS, "action_shape": ACTIONS}, **options})


def test_a_model_without_a_distribution_is_refused() -> None:
    with pytest.raises(UsageError, match="no method `distribution`"):
        C51Policy({}, model=DQN(OBS, ACTIONS))
