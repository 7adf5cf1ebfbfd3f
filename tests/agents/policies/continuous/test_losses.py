"""Losses: beside those of one agent, targets in NumPy, agents that do not act, masks, sharing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, MultiBinary

from dicore.config import bind, compile_config
from dicore.data import Batch, EnvBatch, tree_map
from dicore.errors import ConfigError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.random import seed_everything
from dicore_agents.models.team_q import TeamQAC
from dicore_agents.policies.continuous.maddpg import MADDPGPolicy
from tests.agents.policies.continuous.made import (
    ALL,
    BOX,
    CHOICE,
    MORTAL,
    NAMES,
    ROWS,
    SEEN,
    made,
    parameters,
    rows,
    team,
)

GAMMA = 0.99


def single(name: str) -> Any:
    """A policy of one agent in the same spaces as `alone`."""
    cfg: dict[str, Any] = {"type": name, "learn": {"max_grad_norm": None}}
    cfg["model"] = {"actor_hidden_size_list": [8], "critic_hidden_size_list": [8]}
    compiled = compile_config({"env": {"type": "pendulum"}, "policy": cfg})
    spec = EnvSpec(Box(-1, 1, (3,), np.float32), Box(-2, 2, (2,), np.float32))
    seed_everything(0)
    return bind(compiled, spec).policy.build(None)


@pytest.mark.parametrize(
    ("name", "other"), [("maddpg", "ddpg"), ("matd3", "td3"), ("masac", "sac")]
)
def test_one_agent_learns_as_the_algorithm_for_one_agent(name: str, other: str) -> None:
    """From the same parameters and noise: equal losses, in each of four updates."""
    seen = Dict(obs=Box(-1, 1, (1, 3), np.float32))
    spec = EnvSpec(seen, Box(-2, 2, (1, 2), np.float32), agents=("one",))
    plain, policy = single(other), made(name, spec, {"share": "none"})
    for key in ("model", "target_model"):
        mine, theirs = (each.get_attribute(key) for each in (policy, plain))
        pairs = zip(mine.parameters(), theirs.parameters(), strict=True)
        for one, two in pairs:
            one.data.copy_(two.data)
    samples = rows(spec)
    flat = tree_map(lambda leaf: leaf[:, 0] if leaf.ndim > 1 else leaf, samples.columns)
    flat["obs"], flat["next_obs"] = flat["obs"]["obs"], flat["next_obs"]["obs"]
    seed_everything(1)
    ones = [policy.learn_mode.forward(samples) for _ in range(4)]
    seed_everything(1)
    twos = [plain.learn_mode.forward(Batch(flat, ROWS)) for _ in range(4)]
    for one, two in zip(ones, twos, strict=True):
        for key in ("critic_loss", "actor_loss", "q_value", "priority"):
            if two[key] is not None:
                np.testing.assert_allclose(one[key], two[key], rtol=1e-4, atol=1e-6, err_msg=key)


def test_a_target_ends_with_the_episode_or_with_the_agent() -> None:
    """y_a = r_a + gamma (1 - done_a) Q'_a(s', mu'(o'))."""
    spec = team(BOX, MORTAL)
    policy = made("maddpg", spec, {"share": "none"})
    samples = rows(spec).to_torch()
    model = policy.get_attribute("target_model")
    after = samples["next_obs"]
    with torch.no_grad():
        value = model.q(after, model.policy(after)["mean"].tanh())[0].numpy()
    going = (1 - samples["done"][:, None]).numpy() * after["alive"].numpy()
    assert 0 < going.sum() < (1 - samples["done"]).sum() * 2
    wanted = samples["reward"].numpy() * samples["obs"]["alive"].numpy() + GAMMA * going * value
    np.testing.assert_allclose(policy._target(samples), wanted, rtol=1e-5)


@pytest.mark.parametrize(("name", "actions"), ALL, ids=NAMES)
def test_a_reward_of_the_team_is_followed_by_the_value_of_those_that_remain(
    name: str, actions: Any
) -> None:
    """y_a = R + gamma (1 - done) mean_b V'_b(s') where a does not act in s', as b do."""
    spec = team(actions, MORTAL)
    policy = made(name, spec, {"share": "none"}, discount_factor=0.5)
    samples = rows(spec, reward=np.arange(ROWS, dtype=np.float32)).to_torch()
    value = torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(0))
    policy._next_value = lambda _: value
    wanted = np.empty((ROWS, 2))
    for row, alive in enumerate(samples["next_obs"]["alive"].numpy()):
        mean = float(value[row, alive != 0].mean()) if alive.any() else 0.0
        for agent in range(2):
            after = float(value[row, agent]) if alive[agent] else mean
            wanted[row, agent] = row + 0.5 * (1 - float(samples["done"][row])) * after
    assert 0 < samples["next_obs"]["alive"].sum() < 2 * ROWS
    np.testing.assert_allclose(policy._target(samples), wanted, rtol=1e-5)


def test_a_reward_of_the_team_is_that_of_each_agent() -> None:
    spec = team(BOX)
    policy, reward = made("maddpg", spec), np.arange(ROWS, dtype=np.float32)
    both = rows(spec, reward=reward), rows(spec, reward=np.stack([reward, reward], 1))
    one, two = (policy._target(each.to_torch()) for each in both)
    assert torch.equal(one, two)


def test_discounts_of_several_steps_are_those_of_the_samples() -> None:
    spec, factors = team(BOX), np.linspace(0.5, 0.9, ROWS, dtype=np.float32)
    policy = made("maddpg", spec, nstep=3)
    reward = np.zeros((ROWS, 2), np.float32)
    same = {"reward": reward, "done": np.zeros(ROWS, np.float32)}
    plain = policy._target(rows(spec, **same).to_torch())
    told = policy._target(rows(spec, value_gamma=factors, **same).to_torch())
    np.testing.assert_allclose(told, plain.numpy() * factors[:, None] / GAMMA**3, rtol=1e-5)


def test_each_error_of_the_critics_counts_by_the_weight_of_its_sample() -> None:
    """The losses of single samples, weights of 0 elsewhere, sum to that of all of them."""
    spec = team(BOX, MORTAL)
    policy, samples = made("maddpg", spec), rows(spec).to_torch()
    whole = policy._critic_loss(samples, None)[0]
    parts = [policy._critic_loss(samples, weight)[0] for weight in torch.eye(ROWS)]
    torch.testing.assert_close(torch.stack(parts).sum(), whole)
    assert len({each.item() for each in parts}) > 1


def buried(spec: EnvSpec, filler: float) -> Batch:
    """Samples in which the rows of agents that do not act are filled with a number."""
    samples = rows(spec)
    for part, columns in (("obs", ("action", "reward")), ("next_obs", ())):
        dead = samples[part]["alive"] == 0
        samples[part]["obs"][dead] = filler
        for column in columns:
            if samples[column].dtype == np.float32:
                samples[column][dead] = filler
    return samples


@pytest.mark.parametrize(("name", "actions"), ALL, ids=NAMES)
def test_rows_of_agents_that_do_not_act_change_nothing(name: str, actions: Any) -> None:
    spec, found = team(actions, MORTAL), []
    for filler in (np.nan, 0.5):
        policy = made(name, spec)
        results = [policy.learn_mode.forward(buried(spec, filler)) for _ in range(3)]
        assert results[-1]["priority"].isfinite().all()
        found.append(parameters(policy))
    assert all(torch.equal(found[0][key], found[1][key]) for key in found[0])


@pytest.mark.parametrize(("name", "actions"), ALL, ids=NAMES)
def test_samples_in_which_nobody_acts_give_no_gradient(name: str, actions: Any) -> None:
    spec = team(actions, MORTAL)
    policy, samples = made(name, spec), rows(spec)
    samples["obs"]["alive"][:] = 0
    before = parameters(policy)
    policy.learn_mode.forward(samples)
    after = parameters(policy)
    assert all(torch.equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize("name", ["maddpg", "masac"])
def test_forbidden_actions_are_never_chosen(name: str) -> None:
    """Also where their logits are the largest, and by the targets."""
    spec = team(CHOICE, {**SEEN, "action_mask": MultiBinary([2, 3])})
    policy = made(name, spec, {"share": "none"})
    rng = np.random.default_rng(0)
    mask = np.zeros((400, 2, 3), np.int8)
    np.put_along_axis(mask, rng.integers(0, 2, (400, 2, 1)), 1, 2)
    bias = [*policy.get_attribute("model").actor.biases][-1]
    with torch.no_grad():
        bias[..., 2] = 9.0
    obs = {"obs": rng.normal(size=(400, 2, 3)).astype(np.float32), "action_mask": mask}
    for mode in (policy.collect_mode, policy.eval_mode):
        action = EnvBatch.of(mode.forward(EnvBatch(np.arange(400), obs))).value["action"]
        assert np.take_along_axis(mask, action[..., None], 2).all()


@pytest.mark.parametrize("name", ["maddpg", "masac"])
def test_values_of_forbidden_actions_have_no_influence(name: str) -> None:
    spec = team(CHOICE, {**SEEN, "action_mask": MultiBinary([2, 3])})
    mask, found = np.tile(np.array([1, 1, 0], np.int8), (ROWS, 2, 1)), []
    for large in (0.0, 1e3):
        policy = made(name, spec, {"share": "none"})
        model = policy.get_attribute("model")
        samples = rows(spec)
        for part in ("obs", "next_obs"):
            samples[part]["action_mask"] = mask
        samples.columns["action"] = samples["action"] % 2
        with torch.no_grad():
            [*model.actor.biases][-1][..., 2] += large
        seed_everything(1)
        results = policy.learn_mode.forward(samples)
        found.append([float(results[key]) for key in ("critic_loss", "actor_loss")])
    assert found[0] == found[1]


def test_target_entropies_follow_the_masks() -> None:
    spec = team(CHOICE, {**SEEN, "action_mask": MultiBinary([2, 3])})
    policy, obs = made("masac", spec), rows(spec).to_torch()["obs"]
    obs["action_mask"] = torch.tensor([[1, 1, 0], [1, 1, 1]]).expand(ROWS, -1, -1)
    np.testing.assert_allclose(policy._wanted_entropy(obs), 0.2 * np.log([2, 3]), rtol=1e-6)


@pytest.mark.parametrize("actions", [BOX, CHOICE], ids=["continuous", "discrete"])
def test_the_target_entropy_of_teams_moves_linearly(actions: Any) -> None:
    """Also where masks would give one of their own."""
    parts = SEEN if actions is BOX else {**SEEN, "action_mask": MultiBinary([2, 3])}
    spec, last = team(actions, parts), -6.0 if actions is BOX else 0.1
    policy = made("masac", spec, learn={"target_entropy_end": last, "target_entropy_decay": 2})
    samples = rows(spec)
    if actions is CHOICE:
        for name in ("obs", "next_obs"):
            samples[name]["action_mask"] = np.ones((ROWS, 2, 3), np.int8)
    first, found = policy.get_attribute("target_entropy"), []
    for _ in range(3):
        policy.learn_mode.forward(samples)
        found.append(float(policy._wanted_entropy(samples.to_torch()["obs"])))
    np.testing.assert_allclose(found, [first, (first + last) / 2, last], rtol=1e-6)


def test_each_agent_has_a_temperature() -> None:
    """That of an agent which never acts stays."""
    spec = team(BOX, MORTAL)
    policy, samples = made("masac", spec), rows(spec)
    samples["obs"]["alive"][:] = [1, 0]
    policy.learn_mode.forward(samples)
    log_alpha = policy.learn_mode.state_dict()["log_alpha"]
    assert log_alpha[0] != 0
    assert log_alpha[1] == 0


def test_the_numbers_that_critics_see_are_those_of_the_env() -> None:
    state = {"state": Box(-1, 1, (5,), np.float32)}
    spec = team(BOX, {**SEEN, **state})
    widths = [
        made("maddpg", spec, {"critic_sees": sees}).get_attribute("cfg").model.state_shape
        for sees in (None, "state", "observations")
    ]
    assert widths == [5, 5, 6]


ONE = EnvSpec(Box(-1, 1, (3,), np.float32), Box(-1, 1, (2,), np.float32))


@pytest.mark.parametrize(
    ("spec", "model", "problem"),
    [
        (ONE, {}, "trains several agents; this env has one"),
        (team(BOX), {"critic_sees": "state"}, "critic_sees: 'state' needs an environment with"),
        (team(Box(-1, 1, (4,), np.float32)), {}, r"needs actions Box\(2, \.\.\.\)"),
        (team(Box(-np.inf, 1, (2, 1), np.float32)), {}, "needs bounded real numbers"),
        (team(BOX), {"share": "group"}, "groups"),
        (team(BOX), {"critic_share": "group"}, "groups"),
    ],
    ids=["one agent", "no state", "no rows", "no bounds", "no groups", "no groups of critics"],
)
@pytest.mark.parametrize("name", ["maddpg", "masac"])
def test_what_does_not_fit_is_refused(name: str, spec: Any, model: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        made(name, spec, model)


def test_a_policy_refuses_networks_for_other_actions() -> None:
    network = TeamQAC(3, 2, 2, 6, discrete=True)
    with pytest.raises(UsageError, match=r"needs a TeamQAC\(discrete=False, soft=False\), got a"):
        MADDPGPolicy(made("maddpg", team(BOX)).get_attribute("cfg"), network)
    with pytest.raises(UsageError, match="got a Linear"):
        MADDPGPolicy(made("maddpg", team(BOX)).get_attribute("cfg"), torch.nn.Linear(1, 1))
