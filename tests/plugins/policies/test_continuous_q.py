"""SAC, TD3 and DDPG: targets and losses in plain NumPy, the temperature; runs of relatives too."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.config import compile_config
from dicore.config.checks import bind
from dicore.data import Batch
from dicore.errors import ConfigError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.launch import launch
from dicore.run.random import seed_everything, stream
from dicore_plugins.functional import squashed_gaussian
from dicore_plugins.models import QAC
from dicore_plugins.policies import SACPolicy, TD3Policy, create_policy

ALL = ("sac", "td3", "ddpg", "tqc", "crossq", "d4pg")
OBS = spaces.Box(-1, 1, (3,), np.float32)
BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32))
ROWS, GAMMA = 16, 0.99


def policy_of(name: str, *overrides: str, actions: Any = BOX, observed: Any = OBS) -> Any:
    small = [f"policy.model.{part}_hidden_size_list=[8]" for part in ("actor", "critic")]
    compiled = compile_config(
        {"env": {"type": "pendulum"}, "policy": {"type": name}}, overrides=[*small, *overrides]
    )
    seed_everything(0)
    policy = bind(compiled, EnvSpec(observed, actions)).policy.build(None)
    target = policy.get_attribute("target_model")
    with torch.no_grad():  # the target differs from the network
        for index, each in enumerate(() if target is None else target.parameters()):
            each.add_(
                torch.randn(each.shape, generator=torch.Generator().manual_seed(index)), alpha=0.3
            )
    return policy


def rows(seed: int = 0, **more: Any) -> Batch:
    rng = np.random.default_rng(seed)
    action = np.stack([rng.uniform(-2, 2, ROWS), rng.uniform(0, 1, ROWS)], 1)
    return Batch(
        {
            "obs": rng.normal(size=(ROWS, 3)).astype(np.float32),
            "action": action.astype(np.float32),
            "reward": rng.normal(size=ROWS).astype(np.float32),
            "next_obs": rng.normal(size=(ROWS, 3)).astype(np.float32),
            "done": (rng.random(ROWS) < 0.3).astype(np.float32),
            **more,
        }
    )  # fmt: skip


def layers(mlp: Any) -> list[tuple[Any, Any]]:
    double = [each.detach().double().numpy() for each in mlp.parameters()]
    return [(weight.T, bias) for weight, bias in zip(double[::2], double[1::2], strict=True)]


def forward(pairs: list[tuple[Any, Any]], x: Any) -> Any:
    for index, (weight, bias) in enumerate(pairs):
        x = (np.maximum(x, 0) if index else x) @ weight + bias
    return x


def q_of(model: Any, obs: Any, action: Any) -> Any:
    """Q values [E, B] in doubles, one network after the other."""
    x = np.concatenate([obs, action], 1).astype(np.float64)
    weights = [each.detach().double().numpy() for each in model.critic.weights]
    biases = [each.detach().double().numpy() for each in model.critic.biases]
    return np.stack(
        [
            forward([(w[e], b[e, 0]) for w, b in zip(weights, biases, strict=True)], x)[:, 0]
            for e in range(len(weights[0]))
        ]
    )


def unit(action: Any) -> Any:
    return (action - [0, 0.5]) / [2, 0.5]


def squashed(output: Any, noise: Any) -> tuple[Any, Any]:
    """Actions and log-probabilities by the change of variables, in doubles."""
    mean, log_std = np.split(output, 2, 1)
    log_std = log_std.clip(-20, 2)
    raw = mean + np.exp(log_std) * noise
    density = np.exp(-(noise**2) / 2) / (np.exp(log_std) * math.sqrt(2 * math.pi))
    return np.tanh(raw), np.log(density / (1 - np.tanh(raw) ** 2)).sum(1)


def noise_of(count: int) -> list[Any]:
    """The noise of the next updates."""
    rng = copy.deepcopy(stream("policy/learn"))
    return [rng.standard_normal((ROWS, 2), np.float32).astype(np.float64) for _ in range(count)]


@pytest.mark.parametrize("form", ["plain", "nstep", "weighted", "ignore_done"])
def test_an_update_of_sac_equals_the_formulas(form: str) -> None:
    options, gamma, more = [], GAMMA, {}
    if form == "nstep":
        gamma = np.where(np.arange(ROWS) % 2, GAMMA, GAMMA**2).astype(np.float32)
        options, more = ["policy.nstep=2"], {"value_gamma": gamma}
    elif form == "weighted":
        more = {"weight": np.linspace(0.1, 1, ROWS, dtype=np.float32)}
    elif form == "ignore_done":
        options = ["policy.learn.ignore_done=true"]
    policy, batch = policy_of("sac", "policy.learn.alpha=0.3", *options), rows(**more)
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    first, second = noise_of(2)
    actor = layers(model.actor)
    action, log_prob = squashed(forward(actor, batch["next_obs"]), first)
    future = q_of(target, batch["next_obs"], action).min(0) - 0.3 * log_prob
    done = 0 if form == "ignore_done" else batch["done"]
    y = batch["reward"] + gamma * (1 - done) * future
    error = q_of(model, batch["obs"], unit(batch["action"])) - y
    critic_loss = (error**2 * more.get("weight", 1)).mean(1).sum()
    found = policy.learn_mode.forward(batch)
    assert found["critic_loss"].item() == pytest.approx(critic_loss, rel=1e-4)
    np.testing.assert_allclose(found["priority"], np.abs(error).mean(0), rtol=1e-4, atol=1e-5)
    # the actor's loss is that of the updated critics, and of the actor before its update
    action, log_prob = squashed(forward(actor, batch["obs"]), second)
    actor_loss = (0.3 * log_prob - q_of(model, batch["obs"], action).min(0)).mean()
    assert found["actor_loss"].item() == pytest.approx(actor_loss, rel=1e-3, abs=1e-5)
    assert found["entropy"].item() == pytest.approx(-log_prob.mean(), rel=1e-4)


@pytest.mark.parametrize("name", ["td3", "ddpg"])
def test_an_update_of_td3_and_ddpg_equals_the_formulas(name: str) -> None:
    policy, batch = policy_of(name), rows()
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    action = np.tanh(forward(layers(target.actor), batch["next_obs"]))
    if name == "td3":
        (noise,) = noise_of(1)
        action = (action + (0.2 * noise).clip(-0.5, 0.5)).clip(-1, 1)
    y = batch["reward"] + GAMMA * (1 - batch["done"]) * q_of(target, batch["next_obs"], action).min(
        0
    )
    actor = layers(model.actor)
    error = q_of(model, batch["obs"], unit(batch["action"])) - y
    assert len(error) == (2 if name == "td3" else 1)
    kept = [each.data.clone() for each in policy.get_attribute("target_flats").values()]
    found = policy.learn_mode.forward(batch)
    assert found["critic_loss"].item() == pytest.approx((error**2).mean(1).sum(), rel=1e-4)
    moved = [
        not torch.equal(each.data, before)
        for each, before in zip(policy.get_attribute("target_flats").values(), kept, strict=True)
    ]
    if name == "td3":  # the actor and the target wait for the second update
        assert found["actor_loss"] is None
        assert moved == [False, False]
        assert policy.learn_mode.forward(batch)["actor_loss"] is not None
        return
    assert moved == [True, True]
    loss = -q_of(model, batch["obs"], np.tanh(forward(actor, batch["obs"])))[0].mean()
    assert found["actor_loss"].item() == pytest.approx(loss, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sac", ["policy.model.num_critics=3"]),
        ("sac", ["policy.model.activation=tanh", "policy.learn.max_grad_norm=0.5"]),
        ("td3", ["policy.learn.actor_update_freq=1"]),
        ("ddpg", []),
    ],
)
def test_gradients_by_formulas_are_those_of_autograd(name: str, options: list[str]) -> None:
    weight = np.linspace(0, 2, ROWS, dtype=np.float32)
    found = []
    for known in ({}, {"critic": None, "actor": None}):
        policy = policy_of(name, *options)
        with torch.no_grad():  # the last rows of log_std are out of its range
            policy._model.actor.layers[-1].bias[-1].fill_(2.5)
        learn = policy.learn_mode
        learn.forward(rows(0))
        policy._formulas = dict(known)
        results = [learn.forward(rows(seed, weight=weight)) for seed in range(3)]
        by_formulas = ("critic", "actor") if name == "sac" else ("critic",)
        made = {part for part, formula in policy._formulas.items() if formula is not None}
        assert made == (set() if known else set(by_formulas))
        scalars = [float(each[key]) for each in results for key in ("critic_loss", "actor_loss")]
        found.append([*policy._flats["actor"].data, *policy._flats["critic"].data, *scalars])
    np.testing.assert_allclose(*found, rtol=2e-3, atol=2e-5)


def test_a_changed_loss_of_the_actor_is_obeyed() -> None:
    class Least(SACPolicy):
        def _actor_value(self, q: torch.Tensor) -> torch.Tensor:
            return q[0] * 0

    policy = Least(policy_of("sac")._cfg)
    result = {key: float(each) for key, each in policy.learn_mode.forward(rows()).items()
              if key != "priority"}  # fmt: skip
    assert policy._formulas["critic"] is not None
    assert policy._formulas["actor"] is None
    assert result["actor_loss"] == pytest.approx(-result["alpha"] * result["entropy"], abs=1e-5)


def test_the_target_follows_by_tau() -> None:
    policy = policy_of("sac", "policy.learn.target_theta=0.25")
    flats, targets = (policy.get_attribute(name) for name in ("flats", "target_flats"))
    before = targets["critic"].data.clone()
    policy.learn_mode.forward(rows())
    wanted = torch.lerp(before, flats["critic"].data, 0.25)
    torch.testing.assert_close(targets["critic"].data, wanted)


@pytest.mark.parametrize(("target", "falls"), [(-100.0, True), (100.0, False)])
def test_the_temperature_keeps_the_entropy(target: float, falls: bool) -> None:
    policy = policy_of("sac", f"policy.learn.target_entropy={target}")
    alphas = [policy.learn_mode.forward(rows(seed))["alpha"].item() for seed in range(5)]
    assert (alphas[-1] < alphas[0]) == falls
    fixed = policy_of("sac", "policy.learn.auto_alpha=false", "policy.learn.alpha=0.2")
    alphas = [fixed.learn_mode.forward(rows(seed))["alpha"].item() for seed in range(3)]
    assert alphas == pytest.approx([0.2] * 3)


def test_squashed_log_probabilities_integrate_to_one() -> None:
    """By hand: the density over actions is a histogram of samples, and finite at the ends."""
    mean, log_std = torch.full((1, 1), 0.3), torch.full((1, 1), -0.2)
    noise = torch.linspace(-6, 6, 20_001)[:, None]
    action, log_prob = squashed_gaussian(mean, log_std, noise)
    total = torch.trapezoid(log_prob.double().exp(), action.double()[:, 0])
    assert total.item() == pytest.approx(1, abs=1e-4)
    _, far = squashed_gaussian(torch.full((1, 1), 50.0), log_std, torch.zeros(1, 1))
    assert torch.isfinite(far).all()
    raw = torch.zeros(1, 1, requires_grad=True)
    squashed_gaussian(raw, log_std, torch.ones(1, 1))[1].sum().backward()
    u = math.exp(-0.2)
    assert raw.grad is not None
    assert raw.grad.item() == pytest.approx(2 * math.tanh(u), rel=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_acting_by_numpy_equals_torch_and_fills_the_range(name: str) -> None:
    both = [policy_of(name), policy_of(name, "policy.collect.act_by_numpy=false")]
    obs = dict(enumerate(np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32) * 30))
    for mode in ("eval_mode", "collect_mode"):
        acted = []
        for policy in both:
            seed_everything(1)
            policy._rng = stream("policy/collect")
            acted.append(getattr(policy, mode).forward(obs).value["action"])
        np.testing.assert_allclose(*acted, rtol=1e-5, atol=1e-5)
        assert all(each in BOX for each in acted[0])
        assert acted[0].min() < -1
        assert acted[0].max() > 1


@pytest.mark.parametrize("name", ["sac", "td3", "ppo"])
def test_the_bounds_of_float64_actions_are_kept(name: str) -> None:
    actions = spaces.Box(-0.1, 0.3, (2,), np.float64)
    compiled = compile_config({"env": {"type": "pendulum"}, "policy": {"type": name}})
    policy = bind(compiled, EnvSpec(OBS, actions)).policy.build(None)
    obs = dict(enumerate(np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32) * 30))
    acted = policy.collect_mode.forward(obs).value["action"].astype(np.float64)
    assert all(each in actions for each in acted)
    assert acted.min() == pytest.approx(-0.1)
    assert acted.max() == pytest.approx(0.3)


@pytest.mark.parametrize(
    "name", [*ALL, "td3_bc", "iql", "cql", "awac", "edac", "bcq", "discrete_sac"]
)
def test_normalised_observations_are_those_of_the_samples(name: str) -> None:
    """Learning and acting are those of a policy that receives normalised observations."""
    given, found = [], []
    batch, later = rows(), rows(1)
    first, second = batch["obs"] * [7, 1, 0.1] + 3, later["obs"] * [9, 1, 0.1] + 5
    after = batch["next_obs"] * [7, 1, 0.1] + 3
    for norm in ("true", "false"):
        actions = spaces.Discrete(2) if name == "discrete_sac" else BOX
        policy = policy_of(name, f"policy.model.obs_norm={norm}", actions=actions)
        seen = [first]
        for obs in (first, second):
            known = np.concatenate(seen)
            mean, std = (known.mean(0), known.std(0)) if norm == "false" else (0, 1)
            columns = {"obs": (obs - mean) / std, "next_obs": (after - mean) / std}
            columns = {key: each.astype(np.float32) for key, each in columns.items()}
            if name == "discrete_sac":
                columns["action"] = np.arange(ROWS) % 2
            learned = policy.learn_mode.forward(Batch({**batch.columns, **columns}, ROWS))
            seen = [first, second]
        obs = dict(enumerate(((after - mean) / std).astype(np.float32)))
        acted = policy.eval_mode.forward(obs).value["action"]
        given.append([float(learned["critic_loss"]), *learned["priority"].tolist()])
        found.append(np.asarray(acted, np.float64))
        kept = policy.learn_mode.state_dict()["model"]
        assert ("encode.norm.mean" in kept) == (norm == "true")
    np.testing.assert_allclose(*given, rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(*found, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", ALL)
def test_a_dimension_with_a_single_action_is_learned_around(name: str) -> None:
    actions = spaces.Box(np.array([-2, 0.5], np.float32), np.array([2, 0.5], np.float32))
    policy, batch = policy_of(name, actions=actions), rows()
    batch["action"][:, 1] = 0.5
    assert torch.isfinite(policy.learn_mode.forward(batch)["total_loss"])
    acted = policy.collect_mode.forward({0: batch["obs"][0]})[0]["action"]
    assert acted in actions


RESUMED = [
    pytest.param(name, marks=() if name in ("td3", "sac") else pytest.mark.soak) for name in ALL
]
"""One that explores by noise and one that samples: what is saved is the same in the others."""


@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    def train(folder: str, steps: int, *, resume: bool = False) -> Any:
        given: dict[str, Any] = {
            "exp_name": str(tmp_path / folder), "env": "Pendulum-v1", "policy": name, "seed": 0,
            "overrides": ["pipeline.logger=[]", "env.stop_value=inf", "env.n_evaluator_episode=1",
                          "env.evaluator_env_num=1", "policy.collect.random_collect_size=40",
                          "policy.learn.batch_size=16", "policy.model.critic_hidden_size_list=[8]",
                          "policy.model.obs_norm=true"],
        }  # fmt: skip
        given = {"resume": str(tmp_path / folder)} if resume else given
        return launch(**given, max_env_step=steps)

    whole, _ = train("whole", 96), train("half", 64)
    rest = train("half", 96, resume=True)
    assert rest.run.result.train_iter == whole.run.result.train_iter > 30
    one, two = (each.policy.learn_mode.state_dict() for each in (whole, rest))
    assert ("target_model" in one) == (name != "crossq")
    for part in one.keys() & {"model", "target_model"}:
        assert all(torch.equal(each, two[part][key]) for key, each in one[part].items())
    assert one["update_count"] == two["update_count"]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "actions",
    [
        spaces.Discrete(3),
        spaces.Box(-np.inf, np.inf, (2,)),
        spaces.Box(-1e300, 1e300, (2,), np.float64),
        spaces.Box(0, 3, (2,), np.int64),
    ],
    ids=["discrete", "unbounded", "not_float32", "integers"],
)
def test_action_spaces_that_do_not_fit_are_refused(name: str, actions: Any) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' needs bounded real numbers") as caught:
        policy_of(name, actions=actions)
    assert ("ppo" in str(caught.value.hint)) == (actions.dtype.kind == "f" or actions.shape == ())


def test_batches_larger_than_the_buffer_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"learn.batch_size: must be <= 255"):
        policy_of("sac", "policy.other.replay_buffer.replay_buffer_size=255")


@pytest.mark.parametrize(
    ("name", "override", "message"),
    [
        ("crossq", "policy.learn.target_theta=0.1", "learn.target_theta: crossq has no target"),
        ("sac", "policy.model.stochastic=false", "model.stochastic: sac samples its actions"),
        ("cql", "policy.model.stochastic=false", "model.stochastic: cql samples its actions"),
    ],
)
def test_options_without_effect_are_refused(name: str, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        policy_of(name, override)


def test_images_and_other_networks_are_refused() -> None:
    image = spaces.Box(0, 255, (3, 64, 64), np.uint8)
    for observed in (image, spaces.Dict(image=image, number=spaces.Box(-1, 1))):
        with pytest.raises(ConfigError, match="'qac' takes vectors"):
            policy_of("sac", observed=observed)
    with pytest.raises(ConfigError, match=r"obs_shape.*vector"):
        QAC((3, 64, 64), 2)
    with pytest.raises(ConfigError, match="action_shape"):
        QAC(3, None)
    for cls in (SACPolicy, TD3Policy):
        with pytest.raises(UsageError, match="Linear is not a network with actor, critic"):
            cls(model=torch.nn.Linear(2, 2))


def test_an_ensemble_is_its_networks() -> None:
    model = QAC(3, 2, num_critics=3, critic_hidden_size_list=(8, 8))
    obs, action = torch.randn(5, 3), torch.rand(5, 2)
    np.testing.assert_allclose(
        model.q(obs, action).detach().numpy(), q_of(model, obs.numpy(), action.numpy()), rtol=1e-4,
        atol=1e-6,
    )  # fmt: skip
    action.requires_grad_()
    model.q(obs, action, frozen=True).sum().backward()
    assert action.grad is not None
    assert all(each.grad is None for each in model.parameters())


@pytest.mark.parametrize("name", ["td3", "ddpg", "d4pg", "pdqn"])
def test_exploration_noise_falls_linearly(name: str) -> None:
    """0.4 to 0.1 over 1,000 env steps, also as measured in the actions."""
    args = spaces.Box(-1, 1, (2,), np.float32)
    actions: Any = spaces.Dict(action_type=spaces.Discrete(3), action_args=args)
    policy = create_policy(
        {"type": name, "collect": {"noise": 0.4, "noise_end": 0.1, "noise_decay": 1000}},
        observation_space=spaces.Box(-1, 1, (3,), np.float32),
        action_space=actions if name == "pdqn" else args,
    )
    setting, constant = policy.command_mode.get_setting_collect, {"eps": 0.0}
    found = [setting({"envstep": step})["noise"] for step in (0, 500, 1000, 9000)]
    assert found == pytest.approx([0.4, 0.25, 0.1, 0.1])
    obs = dict.fromkeys(range(4000), np.zeros(3, np.float32))

    def chosen(**settings: Any) -> Any:
        given = {**(constant if name == "pdqn" else {}), **settings}
        action = policy.collect_mode.forward(obs, **given).value["action"]
        return action["action_args"] if name == "pdqn" else action

    assert chosen(noise=0.25).std(0) == pytest.approx(0.25, rel=0.05)
    assert chosen().std(0) == pytest.approx(0.1, rel=0.05)
    with pytest.raises(UsageError, match="unknown argument 'nois'"):
        chosen(nois=0.1)


@pytest.mark.parametrize("name", ["sac", "td3", "ddpg", "redq", "tqc", "crossq", "iql", "td3_bc"])
def test_the_learning_rate_of_all_networks_falls_linearly(name: str) -> None:
    """Also after a resume; `cur_lr` is the rate of the update."""
    options = ("policy.learn.learning_rate=0.01", "policy.learn.learning_rate_end=0.2",
               "policy.learn.learning_rate_decay=4")  # fmt: skip
    policy, rates = policy_of(name, *options), []
    for seed in range(6):
        state = copy.deepcopy(policy.learn_mode.state_dict())
        policy = policy_of(name, *options)
        policy.learn_mode.load_state_dict(state)
        rates.append(policy.learn_mode.forward(rows(seed))["cur_lr"])
        assert {each.learning_rate for each in policy._optimizers.values()} == {rates[-1]}
    np.testing.assert_allclose(rates, [0.01, 0.008, 0.006, 0.004, 0.002, 0.002])


def test_a_rate_that_fell_is_constant_again_after_a_resume_without_schedule() -> None:
    rate = "policy.learn.learning_rate=0.01"
    fell = policy_of("sac", rate, "policy.learn.learning_rate_end=0.2",
                     "policy.learn.learning_rate_decay=2")  # fmt: skip
    for seed in range(3):
        fell.learn_mode.forward(rows(seed))
    policy = policy_of("sac", rate)
    policy.learn_mode.load_state_dict(fell.learn_mode.state_dict())
    assert policy.learn_mode.forward(rows())["cur_lr"] == 0.01
    assert {each.learning_rate for each in policy._optimizers.values()} == {0.01}


@pytest.mark.parametrize("name", ["sac", "redq"])
def test_the_target_entropy_moves_linearly(name: str) -> None:
    """From minus the action values to its end; the temperature follows it."""
    every = ["policy.learn.actor_update_freq=1"] if name == "redq" else []
    end, decay = "policy.learn.target_entropy_end=-6.0", "policy.learn.target_entropy_decay=4"
    policy = policy_of(name, end, decay, *every)
    first, found = policy.get_attribute("target_entropy"), []
    for seed in range(6):
        policy.learn_mode.forward(rows(seed))
        found.append(policy.get_attribute("target_entropy"))
    np.testing.assert_allclose(found, first + (-6 - first) * np.minimum(np.arange(6) / 4, 1))
