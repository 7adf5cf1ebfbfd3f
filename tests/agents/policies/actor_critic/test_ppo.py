"""IPPO and MAPPO: equal to PPO for one agent, blind to agents that do not act."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from dicore.config import bind, compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore.interfaces.policy import Tail
from dicore.run.env_factory import BuildContext
from dicore.run.random import seed_everything
from dicore_agents.policies.actor_critic.ppo import huber_value_error
from dicore_plugins.functional import gae, value_error
from tests.agents.policies.actor_critic.games import (
    NAMES,
    acted,
    drawn,
    made,
    payoff,
    team_spec,
)
from tests.plugins.policies.resuming import same_after_resume

BOTH = ("ippo", "mappo")
ALL = (*BOTH, "happo", "coma")


def played(policy: Any, obs: dict[str, Any]) -> Any:
    return policy.eval_mode.forward(EnvBatch(np.arange(len(obs["obs"])), obs)).value["action"]


@pytest.mark.parametrize(
    ("name", "rate", "collects"),
    [("ippo", 0.01, 25), ("mappo", 0.01, 25), ("happo", 0.01, 25), ("coma", 0.01, 60)],
)
def test_a_team_finds_the_best_joint_action(name: str, rate: float, collects: int) -> None:
    passes = {"critic_epoch_per_collect" if name == "coma" else "epoch_per_collect": 2}
    policy = made(name, team_spec(), learn={"learning_rate": rate, **passes})
    obs = drawn(team_spec(), 64)
    for _ in range(collects):
        policy.learn_mode.forward(acted(policy, obs, payoff))
    assert (played(policy, obs) == 0).all()


def ppo_of_one(weights: dict[str, Any], **learn: Any) -> Any:
    """Returns PPO with the parameters of the networks of a team of one."""
    spec = EnvSpec(Box(-1, 1, (3,), np.float32), Discrete(3))
    cfg = {"policy": {"type": "ppo", "learn": learn}}
    policy = bind(compile_config({"env": {"type": "cartpole"}, **cfg}), spec).cfg.policy
    seed_everything(0)
    single = policy.build(BuildContext(spec))
    state = {name.replace(".shared", ""): each for name, each in weights.items()}
    single.learn_mode.load_state_dict({**single.learn_mode.state_dict(), "model": state})
    return single


@pytest.mark.parametrize("learn", [{}, {"value_clip": 0.2, "dual_clip": 3.0, "batch_size": None}])
def test_a_team_of_one_learns_as_ppo(learn: dict[str, Any]) -> None:
    spec = team_spec(1)
    team = made("ippo", spec, learn=learn)
    single = ppo_of_one(team.learn_mode.state_dict()["model"], **learn)
    obs = drawn(spec, 100)
    samples = acted(team, obs, lambda action: action[:, 0].astype(np.float32))
    names = ("action", "log_prob", "value", "advantage", "target")
    columns = {name: samples[name][:, 0] for name in names}
    alone = Batch({**samples.columns, **columns, "obs": samples["obs"]["obs"][:, 0]}, 100)
    results = team.learn_mode.forward(samples), single.learn_mode.forward(alone)
    assert len(results[0]) == len(results[1])
    for one, other in zip(*results, strict=True):
        assert one.keys() == other.keys()
        for key in one:
            assert float(one[key]) == pytest.approx(float(other[key]), rel=1e-3, abs=1e-5), key


def test_advantages_of_agents_are_those_of_gae() -> None:
    spec = team_spec(alive=MultiBinary(2))
    policy = made("ippo", spec, discount_factor=0.9)
    steps, envs, rng = 6, 3, np.random.default_rng(0)
    rows = [drawn(spec, envs, seed) for seed in range(steps + 1)]
    final = drawn(spec, 2, 99)
    for step, each in enumerate(rows):
        each["alive"][0, 1] = step < 3  # agent 1 of environment 0 dies after step 2
    final["alive"][:] = [[1, 1], [1, 0]]  # where the episode is cut off, agent 1 would not go on
    obs = {key: np.stack([row[key] for row in rows[:-1]]) for key in rows[0]}
    done, end = np.zeros((2, steps, envs), np.bool_)
    done[3, 1] = end[3, 1] = end[4, 2] = True  # a termination and a truncation
    reward = rng.standard_normal((steps, envs, 2)).astype(np.float32)
    action = rng.integers(0, 3, (steps, envs, 2))
    logit = rng.standard_normal((steps, envs, 2, 3)).astype(np.float32)
    columns = {"obs": obs, "action": action, "logit": logit, "reward": reward}
    block = Batch({**columns, "done": done, "end": end}, steps)
    tail = Tail(rows[-1], np.array([3 * envs + 1, 4 * envs + 2]), final, steps)
    samples = policy.collect_mode.get_train_sample(block, tail)

    def value(seen: Any) -> Any:
        with torch.no_grad():
            tensors = {key: torch.from_numpy(each) for key, each in seen.items()}
            return policy.get_attribute("model").v(tensors).numpy()

    v = np.stack([value(row) for row in rows])
    after = v[1:].copy()
    after[3, 1], after[4, 2] = value(final)
    over = np.broadcast_to(done[..., None], (steps, envs, 2)).copy()
    over[2:, 0, 1] = over[4, 2, 1] = True
    for agent in range(2):
        wanted = gae(
            reward[..., agent], v[:-1, :, agent], after[..., agent], over[..., agent], end,
            gamma=0.9, gae_lambda=0.95,
        )  # fmt: skip
        found = samples["advantage"].reshape(steps, envs, 2)[..., agent]
        acts = obs["alive"][..., agent] != 0
        np.testing.assert_allclose(found[acts], wanted[acts], rtol=1e-4, atol=1e-5)
    log_p = logit - np.log(np.exp(logit).sum(-1, keepdims=True))
    taken = np.take_along_axis(log_p, action[..., None], -1).reshape(-1, 2)
    np.testing.assert_allclose(samples["log_prob"], taken, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BOTH)
def test_a_reward_of_the_team_is_that_of_each_agent(name: str) -> None:
    spec = team_spec()
    policy, obs = made(name, spec), drawn(spec, 8)
    one = acted(policy, obs, payoff)
    both = np.repeat(one["reward"][:, None], 2, 1)
    given = {"action": one["action"], "logit": np.zeros((8, 2, 3), np.float32)}
    each = acted(policy, obs, lambda _: both, **given)
    np.testing.assert_array_equal(one["advantage"], each["advantage"])


@pytest.mark.parametrize(
    ("name", "share"),
    [("ippo", "none"), ("mappo", "all"), ("mappo", "none"), ("happo", "none"), ("coma", "all")],
)
def test_agents_that_do_not_act_are_not_learned_from(name: str, share: str) -> None:
    spec = team_spec(alive=MultiBinary(2))
    obs = drawn(spec, 32)
    obs["alive"][::3, 1] = 0
    obs["alive"][5] = 0
    dead = obs["alive"] == 0
    after = []
    for strange in (False, True):
        norm = {} if name == "coma" else {"value_norm": True}
        policy = made(name, spec, model={"share": share, **norm})
        samples = acted(policy, obs, payoff, action=np.zeros((32, 2), np.int64))
        columns = {key: each.copy() for key, each in samples.items() if key != "obs"}
        seen = {key: each.copy() for key, each in samples["obs"].items()}
        if strange:
            seen["obs"][dead] = np.nan
            for key in ("log_prob", "advantage", "value", "target"):
                columns[key][dead] = np.nan
            for key in ("value", "target"):  # of steps in which nobody acts, critics learn
                columns[key][5] = samples[key][5]
            columns["action"][dead] = 2
        results = policy.learn_mode.forward(Batch({**columns, "obs": seen}, 32))
        assert all(torch.isfinite(each["total_loss"]) for each in results)
        after.append(policy.learn_mode.state_dict()["model"])
    for one, other in zip(after[0].values(), after[1].values(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["ippo", "mappo", "happo", "coma"])
def test_of_steps_in_which_nobody_acts_critics_learn_alone(name: str) -> None:
    """And they do not where rewards are own, and so end with the agents."""
    spec = team_spec(alive=MultiBinary(2))
    policy, obs = made(name, spec), drawn(spec, 8)
    policy.learn_mode.forward(acted(policy, obs, payoff))  # moments would move actors
    obs["alive"][:] = 0
    before = deepcopy(policy.learn_mode.state_dict()["model"])
    results = policy.learn_mode.forward(acted(policy, obs, payoff))
    after = policy.learn_mode.state_dict()["model"]
    moved = {key for key in before if not torch.equal(before[key], after[key])}
    assert moved == {key for key in before if key.startswith("critic")}
    assert results
    assert all(each["policy_loss"] is None for each in results)
    policy.ends_with_agents = True
    assert policy.learn_mode.forward(acted(policy, obs, payoff)) == []
    if name in ("ippo", "mappo"):
        own = made(name, EnvSpec(spec.observation, spec.action, Box(-9, 9, (2,)), agents=NAMES[:2]))
        paid = acted(own, obs, lambda action: np.ones(action.shape, np.float32))
        assert own.learn_mode.forward(paid) == []


def some_absent() -> tuple[EnvSpec, dict[str, Any]]:
    """Observations of 32 steps; in the later half, of another state, nobody acts."""
    spec = team_spec(alive=MultiBinary(2), state=Box(-1, 1, (2,), np.float32))
    obs = drawn(spec, 32)
    obs["state"][:16], obs["state"][16:], obs["alive"][16:] = -1, 1, 0
    return spec, obs


@pytest.mark.parametrize("name", ["mappo", "happo", "coma"])
def test_critics_learn_what_comes_where_nobody_acts(name: str) -> None:
    spec, obs = some_absent()
    policy = made(name, spec, learn={"learning_rate": 0.01, "batch_size": 8})

    wanted = np.repeat(np.float32([-1, 1]), 16)
    for _ in range(10):
        policy.learn_mode.forward(acted(policy, obs, lambda _: wanted))
    action = np.ones((32, 2), np.int64)
    values = policy._q_taken(obs, action) if name == "coma" else policy._values(obs)
    np.testing.assert_allclose(values.mean(1), wanted, atol=0.3)


@pytest.mark.parametrize("name", ["ippo", "mappo", "happo"])
def test_actors_learn_as_without_steps_in_which_nobody_acts(name: str) -> None:
    spec, obs = some_absent()
    found = []
    for rows in (32, 16):
        policy = made(name, spec, learn={"max_grad_norm": None, "batch_size": None})
        seen = {key: each[:rows] for key, each in obs.items()}
        action = (np.arange(2 * rows) % 3).reshape(rows, 2)
        policy.learn_mode.forward(acted(policy, seen, payoff, action=action))
        found.append(policy.learn_mode.state_dict()["model"])
    for key, each in found[0].items():
        if not key.startswith("critic"):
            torch.testing.assert_close(each, found[1][key], rtol=1e-4, atol=1e-5, msg=key)


@pytest.mark.parametrize("name", ["mappo", "coma"])
def test_forbidden_actions_are_never_chosen_nor_likely(name: str) -> None:
    spec = team_spec(action_mask=MultiBinary([2, 3]))
    policy, obs = made(name, spec), drawn(spec, 2)
    obs["action_mask"] = np.array([[[0, 1, 1], [0, 0, 1]], [[1, 0, 0], [1, 1, 0]]], np.int8)
    seen = set()
    for _ in range(40):
        samples = acted(policy, obs, payoff)
        action = samples["action"]
        assert np.take_along_axis(obs["action_mask"], action[..., None], -1).all()
        likely = np.exp(samples["log_prob"])
        np.testing.assert_allclose(likely, 1 / obs["action_mask"].sum(-1), atol=0.05)
        seen |= {tuple(each) for each in action.tolist()}
    assert len(seen) == 4
    assert np.take_along_axis(obs["action_mask"], played(policy, obs)[..., None], -1).all()


@pytest.mark.parametrize("limit", [None, 0.05])
@pytest.mark.parametrize("clip", [None, 0.2])
def test_agents_of_their_own_networks_learn_as_two_policies(
    limit: float | None, clip: float | None
) -> None:
    """Whatever one is paid, the other learns the same: not their scales, nor their number."""
    spec = EnvSpec(
        team_spec(alive=MultiBinary(2)).observation, MultiDiscrete([3, 3]), Box(-9, 9, (2,)),
        agents=NAMES[:2],
    )  # fmt: skip
    obs = drawn(spec, 64)
    obs["alive"][::4, 1] = 0
    learn: dict[str, Any] = {"batch_size": None, "max_grad_norm": limit, "value_clip": clip,
                             "optimizer": "sgd", "learning_rate": 0.01}  # fmt: skip
    policy = made("ippo", spec, learn=learn, model={"share": "none"})
    samples = acted(policy, obs, lambda action: np.float32([1, 100]) * action.astype(np.float32))
    start = policy.learn_mode.state_dict()["model"]
    start = {name: each.clone() for name, each in start.items()}
    policy.learn_mode.forward(samples)
    found = policy.learn_mode.state_dict()["model"]
    for agent, count in enumerate([64, 48]):
        weights = {}
        for part in ("actor", "critic"):
            for layer in range(3):
                weight, bias = (start[f"{part}.{kind}.{layer}"] for kind in ("weights", "biases"))
                weights[f"{part}.layers.{layer}.weight"] = weight[agent].T.clone()
                weights[f"{part}.layers.{layer}.bias"] = bias[agent, 0].clone()
        # without a limit, gradients are those of the mean over the rows of both
        rate = 0.01 if limit is not None else 0.01 * count / (64 + 48)
        single = ppo_of_one(weights, **learn | {"learning_rate": rate})
        acts = obs["alive"][:, agent] != 0
        columns = {
            name: samples[name][acts, agent]
            for name in ("action", "log_prob", "value", "advantage", "target")
        }
        rows = {key: each[acts] for key, each in samples.columns.items() if key != "obs"}
        alone = Batch({**rows, **columns, "obs": obs["obs"][acts, agent]}, count)
        single.learn_mode.forward(alone)
        wanted = single.learn_mode.state_dict()["model"]
        for part in ("actor", "critic"):
            for layer in range(3):
                torch.testing.assert_close(
                    found[f"{part}.weights.{layer}"][agent].T,
                    wanted[f"{part}.layers.{layer}.weight"], rtol=1e-4, atol=1e-6,
                )  # fmt: skip


def test_a_huber_loss_is_linear_for_large_errors() -> None:
    value, target, old = (
        torch.tensor([0.0, 0.0, 5.0]),
        torch.tensor([1.0, 5.0, 0.0]),
        torch.zeros(3),
    )
    found = huber_value_error(value, target, old, None, 2.0)
    assert found.tolist() == [1.0, 16.0, 16.0]
    assert huber_value_error(value, target, old, 1.0, 2.0).tolist() == [1.0, 16.0, 16.0]
    wide = huber_value_error(value, target, old, 1.0, 100.0).mean()
    assert wide == value_error(value, target, None, old, 1.0)


@pytest.mark.parametrize("value_norm", [False, True])
def test_a_huber_loss_of_small_errors_is_the_square(value_norm: bool) -> None:
    spec, losses = team_spec(), []
    for form in ({"value_loss": "mse"}, {"value_loss": "huber", "huber_delta": 1e3}):
        learn = {**form, "value_clip": 0.2, "batch_size": None}
        policy = made("mappo", spec, learn=learn, model={"value_norm": value_norm})
        samples = acted(policy, drawn(spec, 32), payoff)
        losses.append([float(each["value_loss"]) for each in policy.learn_mode.forward(samples)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_values_are_learned_in_units_of_the_returns() -> None:
    spec = team_spec()
    policy = made("mappo", spec, model={"value_norm": True})
    samples = acted(policy, drawn(spec, 64), lambda action: 1000.0 + payoff(action))
    policy.learn_mode.forward(samples)
    norm = policy.get_attribute("model").value_norm
    assert float(norm.mean) == pytest.approx(float(samples["target"].mean()), rel=1e-3)
    assert float(norm.count) == 128


def test_spaces_that_do_not_fit_are_refused() -> None:
    seen, team = Box(-1, 1, (4,), np.float32), team_spec().observation
    rewards, both = Box(-1, 1, (3,)), ("a", "b")
    actions = MultiDiscrete([2, 2])
    for spec, options, problem in (
        (EnvSpec(seen, actions), {}, "trains several agents; this env has one"),
        (EnvSpec(seen, actions, agents=both), {}, r"Dict\(obs: Box\(2, ...\)\)"),
        (EnvSpec(team, actions, rewards, agents=both), {}, "one for each of 2 agents"),
        (EnvSpec(team, Box(-1, 1, (3, 1)), agents=both), {}, "discrete action of each of 2"),
        (team_spec(), {"critic_input": "state"}, "gives no state"),
        (team_spec(), {"share": "group"}, "groups: is missing"),
        (team_spec(), {"share": "group", "groups": [0, 1, 1]}, "names 3 agents"),
    ):
        with pytest.raises(ConfigError, match=problem):
            made("mappo", spec, model=options)


def test_groups_share_networks() -> None:
    spec = team_spec(3, state=Box(-1, 1, (2,), np.float32))
    for seen, inputs in (("own", 6), ("observations", 9), ("state", 2), ("team", 2)):
        options = {"share": "group", "groups": [0, 1, 0], "critic_input": seen}
        model = made("mappo", spec, model=options).get_attribute("model")
        assert model.actor.weights[0].shape[:2] == (2, 6)
        assert model.critic.weights[0].shape[:2] == (2, inputs)
        same = {"obs": torch.ones(1, 3, 3), "state": torch.ones(1, 2)}
        model.ids.zero_()
        logit = model(same)["logit"][0]
        assert torch.equal(logit[0], logit[2])
        assert not torch.equal(logit[0], logit[1])


GAMES = "tests.agents.policies.actor_critic.games"


@pytest.mark.parametrize(
    ("name", "env", "options"),
    [
        ("mappo", "Mortals", ["policy.model.share=none", "policy.model.value_norm=true"]),
        ("ippo", "MovingMortals", ["policy.learn.value_loss=huber"]),
        ("happo", "MovingMortals", ["policy.learn.epoch_per_collect=2"]),
        ("coma", "Mortals", []),
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(
    name: str, env: str, options: list[str], tmp_path: Path
) -> None:
    options = [*options, "policy.collect.n_sample=40", "env.collector_env_num=4"]
    one, two = same_after_resume(name, f"{GAMES}:{env}", options, tmp_path, 80)
    assert all(torch.isfinite(each).all() for each in one.values())
    assert all(torch.equal(each, two[key]) for key, each in one.items())


def test_observations_of_one_agent_have_no_number() -> None:
    assert made("ippo", team_spec(1)).get_attribute("model").ids is None
    spec = EnvSpec(Dict(obs=Box(-1, 1, (2, 3), np.float32)), Box(-1, 1, (2, 2)), agents=("a", "b"))
    assert made("ippo", spec).get_attribute("model").log_std.shape == (1, 2)


@pytest.mark.parametrize("seen", ["own", "team"])
@pytest.mark.parametrize("groups", [None, [0, 0, 0], [0, 1, 0], [0, 1, 2]])
def test_gradients_by_formulas_are_those_of_autograd(seen: str, groups: list[int] | None) -> None:
    spec, states = team_spec(3, alive=MultiBinary(3)), []
    obs = drawn(spec, 32)
    obs["alive"][::3, 1] = 0
    options = {"share": "all" if groups is None else "group", "groups": groups}
    learn = {"optimizer": "sgd", "learning_rate": 0.1, "max_grad_norm": None, "entropy_weight": 0.1}
    for shortcut in (True, False):
        model = {**options, "critic_input": seen, "value_norm": True}
        policy = made("mappo", spec, model=model, learn=learn)
        net = policy.get_attribute("model")
        if not shortcut:
            net.differentiable = bool
        samples = acted(policy, obs, payoff)
        policy.learn_mode.forward(samples)
        assert policy._by_hand is shortcut
        assert (policy._formula is not None) is shortcut
        states.append(net.state_dict())
    for name, each in states[0].items():
        torch.testing.assert_close(each, states[1][name], rtol=1e-4, atol=1e-6)


def test_actions_are_drawn_by_their_probabilities() -> None:
    spec = team_spec()
    policy = made("ippo", spec, model={"share": "none"})
    bias = policy.get_attribute("model").actor.biases[-1]
    wanted = torch.tensor([[0.7, 0.2, 0.1], [0.05, 0.15, 0.8]])
    with torch.no_grad():
        policy.get_attribute("model").actor.weights[-1].zero_()
        bias.copy_(wanted.log().unsqueeze(1))
    action = acted(policy, drawn(spec, 20_000), payoff)["action"]
    for agent in range(2):
        found = np.bincount(action[:, agent], minlength=3) / len(action)
        np.testing.assert_allclose(found, wanted[agent], atol=0.02)
