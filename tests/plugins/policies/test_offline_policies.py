"""Offline policies: losses in plain NumPy, training from a file by name, resuming, acting."""

from __future__ import annotations

import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.config import bind, compile_config
from dicore.data import Batch
from dicore.errors import ConfigError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.launch import launch
from dicore.run.random import seed_everything, stream
from dicore_plugins.models import DQN, BCQNet, DiscreteBCQNet
from dicore_plugins.policies import (
    BCQPolicy,
    CalQLPolicy,
    DiscreteBCQPolicy,
    DiscreteCQLPolicy,
    EDACPolicy,
    IQLPolicy,
    ReBRACPolicy,
    TD3BCPolicy,
    XQLPolicy,
)
from tests.plugins.datasets.test_offline import cartpole, pendulum
from tests.plugins.policies.test_continuous_q import (
    BOX,
    GAMMA,
    OBS,
    ROWS,
    forward,
    layers,
    noise_of,
    policy_of,
    q_of,
    rows,
    squashed,
    unit,
)
from tests.soak import some

CONTINUOUS = (
    "td3_bc", "cql", "iql", "awac", "edac", "bcq", "rebrac", "cal_ql", "xql", "sac_n",
)  # fmt: skip
DISCRETE = ("discrete_cql", "discrete_bcq")
SMALL = {
    "bcq": ["policy.model.vae_hidden_size_list=[8]"],
    "cql": ["policy.learn.n_action=2"],
    "cal_ql": ["policy.learn.n_action=2"],
    "sac_n": ["policy.model.num_critics=3"],
    "edac": ["policy.model.num_critics=3"],
}


def td_loss(policy: Any, batch: Batch, future: Any) -> Any:
    """Sum over the networks of the mean squared errors."""
    y = batch["reward"] + GAMMA * (1 - batch["done"]) * future
    q = q_of(policy.get_attribute("model"), batch["obs"], unit(batch["action"]))
    return ((q - y) ** 2).mean(1).sum()


def test_the_actor_of_td3_bc_equals_the_formula() -> None:
    policy, batch = policy_of("td3_bc", "policy.learn.actor_update_freq=1"), rows()
    model = policy.get_attribute("model")
    actor = layers(model.actor)
    loss = policy.learn_mode.forward(batch)["actor_loss"].item()
    obs = (batch["obs"] - batch["obs"].mean(0)) / batch["obs"].std(0)
    action = np.tanh(forward(actor, obs))
    q = q_of(model, obs, action)[0]
    distance = ((action - unit(batch["action"])) ** 2).mean()
    assert loss == pytest.approx(distance - 2.5 / np.abs(q).mean() * q.mean(), rel=1e-4)
    assert isinstance(policy, TD3BCPolicy)


def test_the_critics_of_cql_equal_the_formula() -> None:
    """The conservative term by loops over the sampled actions, in doubles."""
    policy, batch = policy_of("cql", "policy.learn.alpha=0.3", "policy.learn.n_action=2"), rows()
    model, target = (policy.get_attribute(name) for name in ("model", "target_model"))
    actor = layers(model.actor)
    rng = deepcopy(stream("policy/learn"))
    drawn = [rng.standard_normal((n, 2), np.float32).astype(float) for n in (ROWS, 32, 32)]
    uniform = rng.uniform(-1, 1, (32, 2)).astype(np.float32)
    action, _ = squashed(forward(actor, batch["next_obs"]), drawn[0])
    loss = td_loss(policy, batch, q_of(target, batch["next_obs"], action).min(0))
    twice, after = (np.repeat(batch[key], 2, 0) for key in ("obs", "next_obs"))
    now, log_now = squashed(forward(actor, twice), drawn[1])
    later, log_later = squashed(forward(actor, after), drawn[2])
    flat = np.full(32, -2 * math.log(2))
    kinds = [(uniform, flat), (now, log_now), (later, log_later)]
    shown = q_of(model, batch["obs"], unit(batch["action"]))
    terms = np.stack([q_of(model, twice, each) - log for each, log in kinds], 2)
    for e in range(2):
        for b in range(ROWS):
            mean = np.exp(terms[e, 2 * b : 2 * b + 2]).mean()
            loss += 5.0 * (math.log(mean) - shown[e, b]) / ROWS
    assert policy.learn_mode.forward(batch)["critic_loss"].item() == pytest.approx(loss, rel=1e-4)


def test_values_of_cal_ql_are_not_below_the_recorded_returns() -> None:
    """The difference to CQL is that of the terms, by loops, whose values are raised."""
    returns = np.linspace(-1, 1, ROWS, dtype=np.float32)
    found, terms = [], []
    for more in ({}, {"discounted_return": returns}):
        policy, batch = policy_of("cal_ql", *SMALL["cal_ql"]), rows(**more)
        assert isinstance(policy, CalQLPolicy)
        kept, policy._noise = policy._noise, deepcopy(policy._noise)
        q, density = policy._sampled(rows_of(batch))
        policy._noise = kept
        terms.append((q.detach().double().numpy(), density.double().numpy()))
    (plain, density), (raised, same) = terms
    np.testing.assert_array_equal(density, same)
    for e in range(2):
        for b in range(ROWS):
            wanted = [
                value if kind < 2 else max(value, returns[b])
                for kind, value in enumerate(plain[e, b])
            ]
            assert raised[e, b].tolist() == pytest.approx(wanted)
    assert (raised > plain).any()
    policy, batch = policy_of("cal_ql", *SMALL["cal_ql"]), rows(discounted_return=returns)
    found = [policy.learn_mode.forward(batch)["critic_loss"].item()]
    plain_policy = policy_of("cql", *SMALL["cql"])
    found.append(plain_policy.learn_mode.forward(rows())["critic_loss"].item())
    assert found[0] > found[1]


def rows_of(batch: Batch) -> Batch:
    return Batch({key: torch.from_numpy(each) for key, each in batch.items()}, ROWS)


def test_an_update_of_rebrac_equals_the_formulas() -> None:
    after = np.stack([np.linspace(-2, 2, ROWS), np.linspace(0, 1, ROWS)], 1).astype(np.float32)
    after[3] = np.nan  # an episode was cut off there
    policy = policy_of(
        "rebrac", "policy.learn.critic_penalty=0.7", "policy.learn.actor_penalty=0.3",
        "policy.learn.actor_update_freq=1", "policy.model.critic_layer_norm=false",
    )  # fmt: skip
    batch = rows(next_action=after)
    assert isinstance(policy, ReBRACPolicy)
    model, target = (policy.get_attribute(name) for name in ("model", "target_model"))
    (noise,) = noise_of(1)
    later = np.tanh(forward(layers(target.actor), batch["next_obs"]))
    later = (later + (0.2 * noise).clip(-0.5, 0.5)).clip(-1, 1)
    away = ((later - unit(after)) ** 2).sum(1)
    away[3] = 0
    future = q_of(target, batch["next_obs"], later).min(0) - 0.7 * away
    loss, actor = td_loss(policy, batch, future), layers(model.actor)
    found = policy.learn_mode.forward(batch)
    assert found["critic_loss"].item() == pytest.approx(loss, rel=1e-4)
    action = np.tanh(forward(actor, batch["obs"]))
    q = q_of(model, batch["obs"], action).min(0)
    near = ((action - unit(batch["action"])) ** 2).sum(1).mean()
    wanted = 0.3 * near - q.mean() / np.abs(q).mean()
    assert found["actor_loss"].item() == pytest.approx(wanted, rel=1e-3, abs=1e-5)


def test_the_values_of_xql_equal_the_formula() -> None:
    policy, batch = policy_of("xql", "policy.learn.beta=0.5", "policy.learn.max_gap=1.5"), rows()
    assert isinstance(policy, XQLPolicy)
    q = q_of(policy.get_attribute("target_model"), batch["obs"], unit(batch["action"])).min(0)
    value = forward(layers(policy.get_attribute("model").value), batch["obs"])[:, 0]
    z = ((q - value) / 0.5).clip(max=1.5)
    wanted = (np.exp(z) - z - 1).mean() / np.exp(max(z.max(), -1))
    assert policy.learn_mode.forward(batch)["value_loss"].item() == pytest.approx(wanted, rel=1e-4)


def test_sac_n_is_sac_with_the_least_of_many() -> None:
    policy, batch = policy_of("sac_n", "policy.learn.alpha=0.3", *SMALL["sac_n"]), rows()
    (noise,) = noise_of(1)
    actor = layers(policy.get_attribute("model").actor)
    action, log_prob = squashed(forward(actor, batch["next_obs"]), noise)
    q = q_of(policy.get_attribute("target_model"), batch["next_obs"], action)
    assert len(q) == 3
    loss = td_loss(policy, batch, q.min(0) - 0.3 * log_prob)
    assert policy.learn_mode.forward(batch)["critic_loss"].item() == pytest.approx(loss, rel=1e-4)


def test_data_without_the_columns_of_an_algorithm_is_one_error(tmp_path: Path) -> None:
    path = pendulum(tmp_path / "data.npz")
    for name, column in (("rebrac", "next_action"), ("cal_ql", "discounted_return")):
        with pytest.raises(
            ConfigError, match=rf"pipeline.dataset.derived: expected \['{column}'\]"
        ):
            launch(
                env="Pendulum-v1", policy=name, mode="serial_offline", max_train_iter=1,
                exp_name=str(tmp_path / name),
                overrides=[f"pipeline.dataset.path={path}", "pipeline.dataset.derived=[]"],
            )  # fmt: skip
        assert not (tmp_path / name).exists()
    with pytest.raises(ConfigError, match=r"nstep: .*rebrac.* expected 1"):
        policy_of("rebrac", "policy.nstep=3")


@pytest.mark.parametrize("name", ["iql", "awac"])
def test_advantages_weight_the_imitation(name: str) -> None:
    policy, batch = policy_of(name, "policy.learn.temperature=0.7"), rows()
    model, target = (policy.get_attribute(each) for each in ("model", "target_model"))
    trunk, log_std = layers(model.actor.trunk), model.actor.log_std.detach().double().numpy()
    std, taken = np.exp(log_std), unit(batch["action"])
    mean = np.tanh(forward(trunk, batch["obs"]))
    if name == "iql":
        value = forward(layers(model.value), batch["obs"])[:, 0]
        future = forward(layers(model.value), batch["next_obs"])[:, 0]
        q = q_of(target, batch["obs"], taken).min(0)
    else:
        first, second = noise_of(2)
        after = np.tanh(forward(trunk, batch["next_obs"])) + std * first
        future = q_of(target, batch["next_obs"], after.clip(-1, 1)).min(0)
    loss = td_loss(policy, batch, future)
    result = policy.learn_mode.forward(batch)
    assert result["critic_loss"].item() == pytest.approx(loss, rel=1e-4)
    if name == "iql":
        error = q - value
        expectile = np.where(error < 0, 0.3, 0.7) * error**2
        assert result["value_loss"].item() == pytest.approx(expectile.mean(), rel=1e-4)
    else:  # by the updated critics
        value = q_of(model, batch["obs"], (mean + std * second).clip(-1, 1)).min(0)
        q = q_of(model, batch["obs"], taken).min(0)
    weight = np.exp((q - value) / 0.7).clip(max=100)
    log_prob = -((taken - mean) ** 2) / (2 * std**2) - log_std - math.log(2 * math.pi) / 2
    wanted = -(weight * log_prob.sum(1)).mean()
    assert result["actor_loss"].item() == pytest.approx(wanted, rel=1e-3)
    assert result["advantage_weight"].item() == pytest.approx(weight.mean(), rel=1e-4)


def test_the_gradients_of_edac_are_pushed_apart() -> None:
    """By differences: the term is the mean over pairs of the cosines of the gradients."""
    policy, batch = policy_of("edac", "policy.model.num_critics=3"), rows()
    plain = policy_of("edac", "policy.model.num_critics=3", "policy.learn.diversity=0")
    assert isinstance(policy, EDACPolicy)
    model, taken, step = policy.get_attribute("model"), unit(batch["action"]), 1e-6
    slopes = []
    for axis in np.eye(2) * step:
        pair = [q_of(model, batch["obs"], taken + sign * axis) for sign in (1, -1)]
        slopes.append((pair[0] - pair[1]) / (2 * step))
    gradient = np.stack(slopes, -1)
    gradient /= np.linalg.norm(gradient, axis=-1, keepdims=True) + 1e-10
    cosine = np.einsum("iba,jba->ijb", gradient, gradient).mean(-1)
    more = (cosine.sum() - np.trace(cosine)) / 2
    loss, without = (
        each.learn_mode.forward(batch)["critic_loss"].item() for each in (policy, plain)
    )
    assert loss - without == pytest.approx(more, rel=1e-3)


def test_bcq_takes_the_best_of_imitated_actions() -> None:
    policy, batch = policy_of("bcq", "policy.learn.n_action=3", *SMALL["bcq"]), rows()
    model, target = (policy.get_attribute(each) for each in ("model", "target_model"))
    assert isinstance(policy, BCQPolicy)
    assert isinstance(model, BCQNet)
    latent = deepcopy(stream("policy/learn")).standard_normal((3 * ROWS, 4), np.float32)
    after = np.repeat(batch["next_obs"], 3, 0)
    decoder = layers(model.vae["decoder"])
    action = np.tanh(forward(decoder, np.concatenate([after, latent.clip(-0.5, 0.5)], 1)))
    change = np.tanh(forward(layers(target.actor), np.concatenate([after, action], 1)))
    q = q_of(target, after, (action + 0.05 * change).clip(-1, 1))
    mixed = (0.75 * q.min(0) + 0.25 * q.max(0)).reshape(ROWS, 3).max(1)
    loss = td_loss(policy, batch, mixed)
    assert policy.learn_mode.forward(batch)["critic_loss"].item() == pytest.approx(loss, rel=1e-4)
    obs = torch.from_numpy(batch["obs"])
    with torch.no_grad():
        found = model(obs)
        features = obs.repeat_interleave(10, 0)
        one = model.perturbed(features, model.decoded(features, model.candidates.repeat(ROWS, 1)))
        best = model.q(features, one)[0].view(ROWS, 10).amax(1)
    torch.testing.assert_close(found["q_value"][:, 0], best)


def discrete(name: str, *options: str, actions: int = 4) -> Any:
    compiled = compile_config(
        {"env": {"type": "cartpole"}, "policy": {"type": name}},
        overrides=["policy.model.encoder_hidden_size_list=[8]", *options],
    )
    seed_everything(0)
    return bind(compiled, EnvSpec(OBS, spaces.Discrete(actions, start=3))).policy.build(None)


def choices() -> Batch:
    batch = dict(rows().columns)
    batch["action"] = np.arange(ROWS) % 4 + 3
    return Batch(batch, ROWS)


def test_the_loss_of_discrete_cql_is_that_of_dqn_and_the_conservative_term() -> None:
    policy, batch = discrete("discrete_cql", "policy.learn.conservative_weight=2"), choices()
    plain = discrete("discrete_cql", "policy.learn.conservative_weight=0")
    assert isinstance(policy, DiscreteCQLPolicy)
    with torch.no_grad():
        q = policy.get_attribute("model").q(torch.from_numpy(batch["obs"])).double().numpy()
    term = np.log(np.exp(q).sum(1)) - q[np.arange(ROWS), np.arange(ROWS) % 4]
    loss, without = (
        each.learn_mode.forward(batch)["total_loss"].item() for each in (policy, plain)
    )
    assert loss - without == pytest.approx(2 * term.mean(), rel=1e-4)


def test_discrete_bcq_chooses_likely_actions_only() -> None:
    policy, batch = discrete("discrete_bcq", "policy.learn.learning_rate=0.01"), choices()
    assert isinstance(policy, DiscreteBCQPolicy)
    columns = {**batch.columns, "action": np.full(ROWS, 5), "reward": np.full(ROWS, -5, np.float32)}
    for _ in range(100):  # action 5 is bad, but no other is in the data
        policy.learn_mode.forward(Batch(columns, ROWS))
    obs = dict(enumerate(batch["obs"]))
    assert set(policy.eval_mode.forward(obs).value["action"]) == {5}
    model = policy.get_attribute("model")
    with torch.no_grad():
        tensor = torch.from_numpy(batch["obs"])
        logit, q = model(tensor)["logit"], model.q(tensor)
        kept = torch.softmax(model.imitation(tensor), 1)
        kept = kept >= 0.3 * kept.amax(1, keepdim=True)
    assert torch.equal(logit[kept], q[kept])
    assert (logit[~kept] == -1e8).all()
    mask = {"action_mask": torch.tensor([[1, 0, 1, 1]] * ROWS), "x": tensor}
    net = DiscreteBCQNet(obs_shape=3, action_shape=4)
    net._nets[1].q = lambda obs: torch.tensor([[0.0, 50.0, 1.0, 0.5]] * ROWS)  # type: ignore[method-assign]
    assert (net.likely(mask, q)[:, 2:] == q[:, 2:]).all()


def test_networks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="`imitation` and no `likely`"):
        DiscreteBCQPolicy(model=DQN(3, 2))
    with pytest.raises(UsageError, match="value and v"):
        IQLPolicy(model=policy_of("td3").get_attribute("model"))
    compiled = compile_config({"env": {"type": "cartpole"}, "policy": {"type": "discrete_bcq"}})
    with pytest.raises(ConfigError, match="'discrete_bcq' needs one discrete action"):
        bind(compiled, EnvSpec(OBS, spaces.MultiDiscrete([2, 3])))
    with pytest.raises(ConfigError, match=r"num_critics: one network has no diversity"):
        policy_of("edac", "policy.model.num_critics=1")
    with pytest.raises(ConfigError, match=r"fixed_std.*stochastic actor"):
        policy_of("td3", "policy.model.fixed_std=true")


@pytest.mark.parametrize("name", CONTINUOUS)
def test_actions_are_within_the_space(name: str) -> None:
    policy = policy_of(name, *SMALL.get(name, ()))
    obs = dict(enumerate(np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32) * 30))
    for mode in (policy.eval_mode, policy.collect_mode):
        assert all(each in BOX for each in mode.forward(obs).value["action"])


@pytest.mark.parametrize("name", some([*CONTINUOUS, *DISCRETE], 3, "offline"))
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    """From a data set, in the middle of an epoch; no env steps are collected."""
    continuous = name in CONTINUOUS
    path = (pendulum if continuous else cartpole)(tmp_path / "data.npz")
    derived = {"rebrac": "next_action", "cal_ql": "discounted_return"}.get(name)
    columns = [f"pipeline.dataset.derived=[{derived}]"] if derived else []
    sizes = ["actor_hidden_size_list", "critic_hidden_size_list"]
    small = [f"policy.model.{each}=[8]" for each in sizes] if continuous else []

    def train(folder: str, count: int, *, resume: bool = False) -> Any:
        given: dict[str, Any] = {
            "env": "Pendulum-v1" if continuous else "CartPole-v1", "policy": name, "seed": 0,
            "exp_name": str(tmp_path / folder), "mode": "serial_offline",
            "overrides": ["pipeline.logger=[]", "env.n_evaluator_episode=1", "env.stop_value=inf",
                          "env.evaluator_env_num=1", "policy.learn.batch_size=16",
                          "policy.eval.evaluator.max_episode_steps=5",
                          "pipeline.dataset.type=npz", f"pipeline.dataset.path={path}",
                          *small, *SMALL.get(name, ()), *columns],
        }  # fmt: skip
        given = {"resume": str(tmp_path / folder)} if resume else given
        return launch(**given, max_train_iter=count)

    whole, _ = train("whole", 30), train("half", 17)
    rest = train("half", 30, resume=True)
    assert rest.run.result.env_step == 0
    one, two = (each.policy.learn_mode.state_dict() for each in (whole, rest))
    for part in ("model", "target_model"):
        assert all(torch.equal(each, two[part][key]) for key, each in one[part].items())
