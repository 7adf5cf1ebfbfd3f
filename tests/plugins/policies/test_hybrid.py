"""Discrete SAC, P-DQN and PPO with hybrid actions: losses in plain NumPy, masks, runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.config import compile_config
from dicore.config.checks import bind
from dicore.data import Batch, TimestepBatch, tree_map
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore.run.launch import launch
from dicore.run.random import seed_everything
from dicore_plugins.functional import kl_divergence, log_prob_entropy, soft_expectation
from tests.plugins.policies.test_continuous_q import forward, layers

OBS = spaces.Box(-1, 1, (3,), np.float32)
KINDS = spaces.Discrete(3, start=1)
ARGS = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32))
HYBRID = spaces.Dict({"action_type": KINDS, "action_args": ARGS})
ROWS, GAMMA = 12, 0.99


def policy_of(name: str, *overrides: str, actions: Any, observed: Any = OBS) -> Any:
    small = [f"policy.model.{part}_hidden_size_list=[8]" for part in ("actor", "critic")]
    small = small if name != "ppo" else ["policy.model.encoder_hidden_size_list=[8]"]
    compiled = compile_config(
        {"env": {"type": "pendulum"}, "policy": {"type": name}}, overrides=[*small, *overrides]
    )
    seed_everything(0)
    policy = bind(compiled, EnvSpec(observed, actions)).policy.build(None)
    target = getattr(policy, "_target_model", None)
    with torch.no_grad():
        for index, each in enumerate(() if target is None else target.parameters()):
            each.add_(
                torch.randn(each.shape, generator=torch.Generator().manual_seed(index)), alpha=0.5
            )
    return policy


def rows(action: Any, mask: Any = None) -> Batch:
    rng = np.random.default_rng(0)

    def obs() -> Any:
        seen = rng.normal(size=(ROWS, 3)).astype(np.float32)
        return seen if mask is None else {"action_mask": mask, "seen": seen}

    return Batch(
        {
            "obs": obs(),
            "action": action,
            "reward": rng.normal(size=ROWS).astype(np.float32),
            "next_obs": obs(),
            "done": (rng.random(ROWS) < 0.3).astype(np.float32),
        }
    )


def critics(model: Any, x: Any) -> Any:
    """Outputs [E, B, N] in doubles."""
    weights = [each.detach().double().numpy() for each in model.critic.weights]
    biases = [each.detach().double().numpy() for each in model.critic.biases]
    return np.stack(
        [
            forward([(w[e], b[e, 0]) for w, b in zip(weights, biases, strict=True)], x)
            for e in range(len(weights[0]))
        ]
    )


def policy_by(logit: Any, mask: Any) -> Any:
    weight = np.exp(logit) * (1 if mask is None else mask)
    return weight / weight.sum(1, keepdims=True)


@pytest.mark.parametrize("masked", [False, True])
def test_an_update_of_discrete_sac_equals_the_formulas(masked: bool) -> None:
    mask = np.array([[1, 0, 1], [1, 1, 1], [0, 1, 0]] * 4, np.int8) if masked else None
    observed = OBS if mask is None else spaces.Dict(
        {"action_mask": spaces.Box(0, 1, (3,), np.int8), "seen": OBS}
    )  # fmt: skip
    policy = policy_of("discrete_sac", "policy.learn.alpha=0.3", actions=KINDS, observed=observed)
    chosen = np.arange(ROWS) % 2 * 0 + np.array([1, 2, 2] * 4)
    batch = rows(chosen, mask)
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    seen, after = (
        batch[key] if mask is None else np.concatenate([mask, batch[key]["seen"]], 1)
        for key in ("obs", "next_obs")
    )
    probability = policy_by(forward(layers(model.actor), after), mask)
    log = np.log(np.where(probability > 0, probability, 1))
    future = (probability * (critics(target, after).min(0) - 0.3 * log)).sum(1)
    y = batch["reward"] + GAMMA * (1 - batch["done"]) * future
    q = critics(model, seen)[:, np.arange(ROWS), chosen - 1]
    logit = forward(layers(model.actor), seen)
    found = policy.learn_mode.forward(batch)
    assert found["critic_loss"].item() == pytest.approx(((q - y) ** 2).mean(1).sum(), rel=1e-4)
    probability = policy_by(logit, mask)
    log = np.log(np.where(probability > 0, probability, 1))
    loss = (probability * (0.3 * log - critics(model, seen).min(0))).sum(1).mean()
    assert found["actor_loss"].item() == pytest.approx(loss, rel=1e-3, abs=1e-5)
    assert found["entropy"].item() == pytest.approx(-(probability * log).sum(1).mean(), rel=1e-4)
    assert policy.get_attribute("target_entropy") == pytest.approx(0.98 * math.log(3))
    largest = math.log(3) if mask is None else (math.log(2) + math.log(3) + math.log(1)) / 3
    slope = policy.get_attribute("flats")["alpha"].grad.item()
    assert slope == pytest.approx(found["entropy"].item() - 0.98 * largest, rel=1e-4)


def test_discrete_sac_acts_within_the_mask() -> None:
    observed = spaces.Dict({"action_mask": spaces.Box(0, 1, (3,), np.int8), "seen": OBS})
    policy = policy_of("discrete_sac", actions=KINDS, observed=observed)
    obs = {
        index: {
            "action_mask": np.array([0, 1, index % 2], np.int8),
            "seen": np.full(3, index / 50, np.float32),
        }
        for index in range(100)
    }
    for mode in (policy.collect_mode, policy.eval_mode):
        action = mode.forward(obs).value["action"]
        assert set(action[::2].tolist()) == {2}
        assert set(action[1::2].tolist()) <= {2, 3}
    with pytest.raises(ConfigError, match="needs one discrete action"):
        policy_of("discrete_sac", actions=spaces.MultiDiscrete([2, 3]))


def test_soft_expectations_of_masked_actions_have_finite_gradients() -> None:
    logit = torch.zeros(2, 3, requires_grad=True)
    mask = torch.tensor([[1, 1, 0], [0, 0, 1]])
    value, entropy = soft_expectation(logit, torch.tensor([[1.0, 3, 99]] * 2), 0.5, mask)
    assert value.tolist() == pytest.approx([2 + 0.5 * math.log(2), 99])
    assert entropy.tolist() == pytest.approx([math.log(2), 0])
    value.sum().backward()
    assert logit.grad is not None
    assert torch.isfinite(logit.grad).all()
    assert (logit.grad[mask == 0] == 0).all()


@pytest.mark.parametrize("double", [True, False])
def test_an_update_of_pdqn_equals_the_formulas(double: bool) -> None:
    policy = policy_of("pdqn", f"policy.learn.double={double}", actions=HYBRID)
    rng = np.random.default_rng(1)
    kinds = rng.integers(1, 4, ROWS)
    args = rng.uniform([-2, 0], [2, 1], (ROWS, 2)).astype(np.float32)
    batch = rows({"action_type": kinds, "action_args": args})
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    x = np.tanh(forward(layers(target.actor), batch["next_obs"]))
    after = np.concatenate([batch["next_obs"], x], 1)
    chooser = critics(model if double else target, after)[0].argmax(1)
    future = critics(target, after)[0][np.arange(ROWS), chooser]
    y = batch["reward"] + GAMMA * (1 - batch["done"]) * future
    taken = np.concatenate([batch["obs"], (args - [0, 0.5]) / [2, 0.5]], 1)
    error = critics(model, taken)[0][np.arange(ROWS), kinds - 1] - y
    own = np.tanh(forward(layers(model.actor), batch["obs"]))
    found = policy.learn_mode.forward(batch)
    assert found["critic_loss"].item() == pytest.approx((error**2).mean(), rel=1e-4)
    np.testing.assert_allclose(found["priority"], np.abs(error), rtol=1e-4, atol=1e-5)
    best = critics(model, np.concatenate([batch["obs"], own], 1))[0].sum(1).mean()
    assert found["actor_loss"].item() == pytest.approx(-best, rel=1e-3, abs=1e-5)
    rates = [each.learning_rate for each in policy.get_attribute("optimizers").values()]
    assert rates == [1e-4, 1e-3]


def test_an_update_of_paddpg_equals_the_formulas() -> None:
    policy = policy_of("paddpg", actions=HYBRID)
    rng = np.random.default_rng(1)
    args = rng.uniform([-2, 0], [2, 1], (ROWS, 2)).astype(np.float32)
    scores = rng.uniform(-1, 1, (ROWS, 3)).astype(np.float32)
    batch = rows({"action_type": scores.argmax(1) + 1, "action_args": args})
    batch = Batch({**batch.columns, "scores": scores})
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    with torch.no_grad():  # beyond the bounds, which clip what the target network says
        target.actor.layers[-1].bias.add_(torch.tensor([2.0, 0, -2, 0, 2]))

    x = forward(layers(target.actor), batch["next_obs"]).clip(-1, 1)
    assert (np.abs(x) == 1).any()
    assert (np.abs(x) < 1).any()
    future = critics(target, np.concatenate([batch["next_obs"], x], 1))[0][:, 0]
    y = batch["reward"] + GAMMA * (1 - batch["done"]) * future
    taken = np.concatenate([batch["obs"], scores, (args - [0, 0.5]) / [2, 0.5]], 1)
    error = critics(model, taken)[0][:, 0] - y
    own = forward(layers(model.actor), batch["obs"])
    found = policy.learn_mode.forward(batch)
    assert found["critic_loss"].item() == pytest.approx((error**2).mean(), rel=1e-4)
    np.testing.assert_allclose(found["priority"], np.abs(error), rtol=1e-4, atol=1e-5)

    step = 1e-3

    def q(given: Any) -> Any:
        return critics(model, np.concatenate([batch["obs"], given], 1))[0][:, 0]

    assert found["actor_loss"].item() == pytest.approx(-q(own).mean(), rel=1e-3, abs=1e-5)
    slope = np.stack([q(own + step * e) - q(own - step * e) for e in np.eye(5)], 1) / (2 * step)
    left = np.where(slope > 0, 1 - own, own + 1) / 2  # more of what has a slope above 0
    bias = model.actor.layers[-1].bias.grad
    np.testing.assert_allclose(bias, -(slope * left).mean(0), rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_the_scores_of_paddpg_fit_the_actions(masked: bool) -> None:
    observed = OBS if not masked else spaces.Dict(
        {"action_mask": spaces.MultiBinary(3), "seen": OBS}
    )  # fmt: skip
    policy = policy_of("paddpg", actions=HYBRID, observed=observed)
    collect = policy.collect_mode
    seen = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    mask = np.tile(np.array([[1, 0, 1], [1, 1, 1]], np.int8), (100, 1))
    obs: Any = {"action_mask": mask, "seen": seen} if masked else seen
    no = np.zeros(200, np.bool_)
    step = TimestepBatch(obs, np.zeros(200, np.float32), no, no, [{}] * 200)
    several = {i: tree_map(lambda leaf, i=i: leaf[i], obs) for i in range(200)}
    found = [collect.forward(several, eps=eps, noise=0.1).value for eps in (0.0, 0.5, 1.0)]
    warm = {"action": {"action_type": np.tile([1, 3], 100), "action_args": np.zeros((200, 2))}}
    for output in (*found, warm):
        scores = collect.process_transition(obs, output, step)["scores"]
        assert scores.dtype == np.float32
        assert (np.abs(scores) <= 1).all()
        kind = output["action"]["action_type"] - 1
        assert (scores.argmax(1) == kind).all()
        assert not masked or (scores[mask == 0] == -1).all()
    with torch.no_grad():
        own = policy.get_attribute("model").policy(torch.from_numpy(seen)) if not masked else None
    if own is not None:
        torch.testing.assert_close(torch.from_numpy(found[0]["scores"]), own["logit"])
        assert not np.isclose(found[2]["scores"], own["logit"]).any(1).all()


def test_the_arguments_of_pdqn_ignore_the_values_of_forbidden_actions() -> None:
    observed = spaces.Dict({"action_mask": spaces.MultiBinary(3), "seen": OBS})
    mask = np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1]] * 4, np.int8)
    moved = []
    for bias in (0.0, 100.0):
        policy = policy_of("pdqn", actions=HYBRID, observed=observed)
        taken = {"action_type": np.full(ROWS, 1), "action_args": np.zeros((ROWS, 2), np.float32)}
        model = policy.get_attribute("model")
        with torch.no_grad():
            model.critic.weights[-1][:, :, 1] += bias
        policy.learn_mode.forward(rows(taken, mask))
        moved.append(policy.get_attribute("flats")["actor"].grad.clone())
    torch.testing.assert_close(*moved)


def test_both_learning_rates_of_pdqn_fall_by_the_same_share() -> None:
    learn = {"learning_rate": 0.01, "actor_learning_rate": 0.001, "learning_rate_end": 0.5,
             "learning_rate_decay": 1}  # fmt: skip
    options = [f"policy.learn.{name}={value}" for name, value in learn.items()]
    policy = policy_of("pdqn", *options, actions=HYBRID)
    taken = {"action_type": np.full(ROWS, 1), "action_args": np.zeros((ROWS, 2), np.float32)}
    for share in (1.0, 0.5):
        policy.learn_mode.forward(rows(taken))
        rates = {name: each.learning_rate for name, each in policy._optimizers.items()}
        assert rates == pytest.approx({"critic": 0.01 * share, "actor": 0.001 * share})


def test_pdqn_explores_types_by_eps_and_arguments_by_noise() -> None:
    both = [
        policy_of("pdqn", f"policy.collect.act_by_numpy={flag}", actions=HYBRID)
        for flag in ("true", "false")
    ]
    obs = dict(enumerate(np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)))
    one, two = (each.eval_mode.forward(obs).value["action"] for each in both)
    assert np.array_equal(one["action_type"], two["action_type"])
    np.testing.assert_allclose(one["action_args"], two["action_args"], rtol=1e-4, atol=1e-5)
    policy = both[0]
    greedy = policy.collect_mode.forward(obs, eps=0.0).value["action"]
    assert np.array_equal(greedy["action_type"], one["action_type"])
    moved = (greedy["action_args"] - one["action_args"]) / [2, 0.5]
    assert 0.08 < moved.std() < 0.12
    random = policy.collect_mode.forward(obs, eps=1.0).value["action"]
    counts = np.bincount(random["action_type"], minlength=4)[1:]
    assert counts.min() > 90
    assert np.ptp(random["action_args"][:, 0]) > 3.8
    assert all(
        {"action_type": kind, "action_args": args} in HYBRID
        for kind, args in zip(random["action_type"], random["action_args"], strict=True)
    )
    schedule = policy.command_mode.get_setting_collect
    assert schedule({"envstep": 0})["eps"] == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("name", "actions"), [("discrete_sac", KINDS), ("paddpg", HYBRID), ("pdqn", HYBRID)]
)
def test_terminal_observations_may_forbid_all_actions(name: str, actions: Any) -> None:
    observed = spaces.Dict({"action_mask": spaces.MultiBinary(3), "seen": OBS})
    kinds = np.arange(ROWS) % 3 + 1
    taken = {"action_type": kinds, "action_args": np.zeros((ROWS, 2), np.float32)}
    losses = []
    for last in (0, 1):
        batch = rows(kinds if name == "discrete_sac" else taken, np.ones((ROWS, 3), np.int8))
        if name == "paddpg":
            batch = Batch({**batch.columns, "scores": np.zeros((ROWS, 3), np.float32)})
        mask = batch["next_obs"]["action_mask"] = np.ones((ROWS, 3), np.int8)
        batch["done"][:2] = 1
        mask[:2] = last
        policy = policy_of(name, actions=actions, observed=observed)
        losses.append(policy.learn_mode.forward(batch)["total_loss"])
    assert torch.isfinite(losses[0])
    assert losses[0] == losses[1]


def test_the_log_probability_of_hybrid_actions_is_the_sum() -> None:
    rng = torch.Generator().manual_seed(0)
    output = {
        "logit": torch.randn(5, 3, generator=rng),
        "mean": torch.randn(5, 2, generator=rng),
        "log_std": torch.randn(5, 2, generator=rng),
    }
    action = {"action_type": torch.tensor([0, 1, 2, 0, 1]), "action_args": torch.ones(5, 2)}
    parts = [
        log_prob_entropy({"logit": output["logit"]}, action["action_type"]),
        log_prob_entropy({key: output[key] for key in ("mean", "log_std")}, action["action_args"]),
    ]
    found = log_prob_entropy(output, action)
    for each, one, two in zip(found, *parts, strict=True):
        torch.testing.assert_close(each, one + two)
    other = {
        key: each + 0.1 * torch.randn(each.shape, generator=rng) for key, each in output.items()
    }
    pieces = [
        kl_divergence(*({key: each[key] for key in keys} for each in (output, other)))
        for keys in (["logit"], ["mean", "log_std"])
    ]
    torch.testing.assert_close(kl_divergence(output, other), pieces[0] + pieces[1])


@pytest.mark.parametrize("name", ["paddpg", "pdqn", "ppo"])
def test_hybrid_actions_fill_the_range_and_resume_exactly(name: str, tmp_path: Path) -> None:
    def train(folder: str, steps: int, *, resume: bool = False) -> Any:
        shapes = {
            "off": ["policy.collect.random_collect_size=40", "policy.collect.n_sample=8",
                     "policy.learn.batch_size=16",
                     "policy.model.critic_hidden_size_list=[8]"],
            "ppo": ["policy.collect.n_sample=40", "policy.learn.epoch_per_collect=1"],
        }  # fmt: skip
        given: dict[str, Any] = {
            "exp_name": str(tmp_path / folder), "env": "moving", "policy": name, "seed": 0,
            "overrides": ["pipeline.logger=[]", "env.stop_value=inf", "env.n_evaluator_episode=1",
                          "env.evaluator_env_num=1", "env.collector_env_num=2",
                          *shapes.get(name, shapes["off"])],
        }  # fmt: skip
        given = {"resume": str(tmp_path / folder)} if resume else given
        return launch(**given, max_env_step=steps)

    whole, _ = train("whole", 120), train("half", 80)
    rest = train("half", 120, resume=True)
    one, two = (each.policy.learn_mode.state_dict()["model"] for each in (whole, rest))
    assert all(torch.equal(each, two[key]) for key, each in one.items())


@pytest.mark.parametrize(
    "actions",
    [
        spaces.Discrete(3),
        spaces.Box(-1, 1, (2,)),
        spaces.Dict({"action_type": KINDS}),
        spaces.Dict({"action_type": KINDS, "action_args": spaces.Box(-np.inf, np.inf, (2,))}),
    ],
    ids=["discrete", "continuous", "no arguments", "unbounded"],
)
def test_pdqn_refuses_other_action_spaces(actions: Any) -> None:
    with pytest.raises(ConfigError, match="'pdqn' needs hybrid actions"):
        policy_of("pdqn", actions=actions)


def test_tuples_without_real_numbers_are_to_be_flattened() -> None:
    with pytest.raises(ConfigError) as caught:
        policy_of("ppo", actions=spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]))
    assert "flatten it to MultiDiscrete or to one Box" in str(caught.value)


def test_tuple_actions_get_the_hint_of_the_wrapper() -> None:
    actions = spaces.Tuple((KINDS, ARGS))
    with pytest.raises(ConfigError) as caught:
        policy_of("ppo", actions=actions)
    assert "gym_hybrid_dict_action" in str(caught.value.hint)
