"""What the algorithms know of games whose values are known, from all joint actions alike."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

from dicore.config import bind, compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import BuildContext
from dicore.run.random import seed_everything

CLIMB = np.array([[8, -12, -12], [-12, 0, 0], [-12, 0, 0]], np.float32)
"""Of Son et al. 2019, table 1; neither sums nor monotonic mixers of values can show it."""
SECOND = np.array([[[7, 7], [7, 7]], [[0, 1], [1, 8]]], np.float32)
"""Of the two-step game (Rashid et al. 2018), where agent 0 chooses between two games."""
MIXED = ("vdn", "qmix", "wqmix", "qplex", "qtran")


def team_spec(actions: int, **more: Any) -> EnvSpec:
    seen = Dict(obs=Box(-1, 1, (2, 3), np.float32), state=Box(-1, 1, (3,), np.float32), **more)
    return EnvSpec(seen, MultiDiscrete([actions] * 2), agents=("one", "other"))


def made(name: str, spec: EnvSpec, **options: Any) -> Any:
    learn = {"learning_rate": 0.003, "batch_size": 8, "target_update_freq": 20}
    learn |= {"criterion": "mse", **options.pop("learn", {})}
    cfg = {"policy": {"type": name, "learn": learn, "discount_factor": 0.99, **options}}
    policy = bind(compile_config({"env": {"type": "cartpole"}, **cfg}), spec).cfg.policy
    seed_everything(0)
    return policy.build(BuildContext(spec))


def states(number: Any) -> dict[str, Any]:
    state = np.eye(3, dtype=np.float32)[number]
    return {"obs": np.repeat(state[:, None], 2, 1), "state": state}


def one_step(payoff: Any) -> Batch:
    joint = np.array(list(product(range(len(payoff)), repeat=2)))
    count = len(joint)
    return Batch(
        {
            "obs": states(np.zeros(count, int)),
            "action": joint,
            "reward": payoff[joint[:, 0], joint[:, 1]],
            "next_obs": states(np.zeros(count, int)),
            "done": np.ones(count, np.float32),
        },
        count,
    )


def two_steps() -> Batch:
    joint = np.array(list(product(range(2), repeat=2)))
    where = np.repeat([0, 1, 2], 4)
    actions = np.tile(joint, (3, 1))
    after = np.concatenate([1 + joint[:, 0], [0] * 8])
    pay = np.concatenate([np.zeros(4), SECOND.reshape(-1)]).astype(np.float32)
    done = (where > 0).astype(np.float32)
    columns = {"obs": states(where), "action": actions, "reward": pay, "done": done}
    return Batch({**columns, "next_obs": states(after)}, 12)


def greedy(policy: Any, number: int) -> list[int]:
    output = policy.eval_mode.forward(EnvBatch(np.zeros(1, np.int64), states(np.array([number]))))
    return output.value["action"][0].tolist()


@pytest.mark.parametrize(
    ("name", "updates", "best"),
    [
        *(("vdn", 300, 0), ("qmix", 300, 0), ("wqmix", 300, 8), ("qtran", 300, 8)),
        pytest.param("qplex", 3000, 8, marks=pytest.mark.slow),
    ],
)
def test_who_finds_the_best_of_a_game_that_punishes(name: str, updates: int, best: int) -> None:
    """As in Son et al. 2019, Rashid et al. 2020 and Wang et al. 2021."""
    policy = made(name, team_spec(3), learn={"alpha": 0.1} if name == "wqmix" else {})
    samples = one_step(CLIMB)
    for _ in range(updates):
        policy.learn_mode.forward(samples)
    first, second = greedy(policy, 0)
    assert CLIMB[first, second] == best


@pytest.mark.parametrize(("name", "value"), [("vdn", 7), ("qmix", 8)])
def test_who_finds_the_best_of_the_two_step_game(name: str, value: int) -> None:
    """As in Rashid et al. 2018, section 5.1."""
    policy, samples = made(name, team_spec(2)), two_steps()
    for _ in range(500):
        policy.learn_mode.forward(samples)
    game = greedy(policy, 0)[0]
    first, second = greedy(policy, 1 + game)
    assert SECOND[game, first, second] == value


def test_independent_agents_learn_from_their_own_rewards() -> None:
    policy, samples = made("independent_q", team_spec(2)), one_step(SECOND[1])
    own = np.stack([samples["action"][:, 0] == 1, samples["action"][:, 1] == 0], 1)
    samples = Batch({**samples.columns, "reward": own.astype(np.float32)}, len(samples))
    for _ in range(100):
        result = policy.learn_mode.forward(samples)
    assert greedy(policy, 0) == [1, 0]
    assert result["priority"].shape == (4,)


@pytest.mark.parametrize("name", ["independent_q", "qmix", "qtran"])
def test_a_factor_of_rewards_is_one_of_targets(name: str) -> None:
    """Of last steps, whose targets are rewards."""
    samples = one_step(CLIMB).to_torch()
    one, other = (
        made(name, team_spec(3), learn={"reward_scale": scale})._loss(samples, None)[2]
        for scale in (1.0, 20.0)
    )
    torch.testing.assert_close(other, 20 * one)
    assert one.any()


@pytest.mark.parametrize("name", ["independent_q", *MIXED])
def test_agents_that_do_not_act_are_not_learned_from(name: str) -> None:
    samples = one_step(CLIMB)
    alive = np.array([[1, 0]] * 9, np.int8)
    reward = np.stack([samples["reward"], np.zeros(9, np.float32)], 1)
    seen = {key: {**samples[key], "alive": alive} for key in ("obs", "next_obs")}
    plain = Batch({**samples.columns, **seen, "reward": reward}, 9)
    odd = {key: {**seen[key], "obs": seen[key]["obs"].copy()} for key in seen}
    for each in odd.values():
        each["obs"][:, 1] = np.nan
    strange = Batch({**plain.columns, **odd}, 9)
    after = []
    for given in (plain, strange):
        policy = made(name, team_spec(3, alive=MultiBinary(2)))
        loss = policy.learn_mode.forward(given)["total_loss"]
        assert torch.isfinite(loss)
        after.append(policy.learn_mode.state_dict()["model"])
    for one, other in zip(after[0].values(), after[1].values(), strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))


@pytest.mark.parametrize("name", ["qmix", "wqmix", "qtran"])
def test_values_cross_a_step_in_which_nobody_acts(name: str) -> None:
    """It is paid 3, and 2 follow; the values of a step before it and of it are both needed."""
    alive = np.array([[1, 1], [0, 0], [1, 1]] * 8, np.int8)
    obs = {**states(np.array([0, 1, 2] * 8)), "alive": alive}
    after = {**states(np.array([1, 2, 0] * 8)), "alive": np.roll(alive, -1, 0)}
    action = np.random.default_rng(0).integers(0, 2, (24, 2))
    reward = np.array([0, 3, 2] * 8, np.float32)
    done = np.array([0, 0, 1] * 8, np.float32)
    columns = {"obs": obs, "next_obs": after, "action": action, "reward": reward, "done": done}
    policy, samples = made(name, team_spec(2, alive=MultiBinary(2))), Batch(columns, 24)
    for _ in range(400):
        policy.learn_mode.forward(samples)
    target = policy._loss(samples.to_torch(), None)[2][:3].tolist()
    assert target == pytest.approx([4.93, 4.98, 2.0], abs=0.2)


def test_errors_count_in_full_if_those_that_act_chose_best() -> None:
    """WQMIX, central weighting: what dead agents are said to have chosen decides nothing."""
    found = []
    for dead in (0, 1):
        policy = made("wqmix", team_spec(2, alive=MultiBinary(2)), learn={"alpha": 0.0})
        obs = {**states(np.zeros(2, int)), "alive": np.array([[1, 0]] * 2, np.int8)}
        best = greedy(policy, 0)[0]
        columns = {"obs": obs, "next_obs": obs, "reward": np.full(2, -9, np.float32)}
        action = np.array([[best, dead], [1 - best, dead]])
        batch = Batch({**columns, "action": action, "done": np.ones(2, np.float32)}, 2).to_torch()
        model = policy.get_attribute("model")
        loss, error, target = policy._loss(batch, None)
        free = (model.central_total(batch["action"], batch["obs"]) - target).square().mean()
        torch.testing.assert_close(loss, error[0].square() / 2 + free)
        found.append(loss)
    assert torch.equal(found[0], found[1])


@pytest.mark.parametrize("of_team", [False, True])
def test_an_agent_that_drops_out_has_the_value_of_the_team_alone(of_team: bool) -> None:
    """Own rewards end with the agent; one reward of the team goes on with those that remain."""
    policy = made("independent_q", team_spec(2, alive=MultiBinary(2)))
    samples = one_step(SECOND[1])
    reward = np.ones(4 if of_team else (4, 2), np.float32)
    going = {"done": np.zeros(4, np.float32), "reward": reward}
    seen = {**samples["obs"], "alive": np.ones((4, 2), np.int8)}
    after = {**samples["obs"], "alive": np.array([[1, 0]] * 4, np.int8)}
    batch = Batch({**samples.columns, **going, "obs": seen, "next_obs": after}, 4)
    value = policy.eval_mode.forward(EnvBatch(np.arange(4), after)).value["logit"].max(-1)
    found = policy.learn_mode.forward(batch)["target_q_value"]
    wanted = 1 + 0.99 * value[:, 0] * (1 if of_team else 0.5)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4)


@pytest.mark.parametrize("eps", [0.0, 1.0, {0: 1.0, 3: 0.0}])
def test_forbidden_actions_are_never_chosen(eps: Any) -> None:
    policy = made("vdn", team_spec(3, action_mask=MultiBinary([2, 3])))
    mask = np.array([[[0, 1, 1], [0, 0, 1]], [[1, 0, 0], [1, 1, 0]]], np.int8)
    obs = EnvBatch(np.array([0, 3]), {**states(np.array([0, 1])), "action_mask": mask})
    seen = set()
    for _ in range(60):
        action = policy.collect_mode.forward(obs, eps=eps).value["action"]
        assert np.take_along_axis(mask, action[..., None], -1).all()
        seen |= {tuple(each) for each in action.tolist()}
    assert (len(seen) > 2) == (eps != 0.0)
    with pytest.raises(UsageError, match="unknown argument 'epsilon'"):
        policy.collect_mode.forward(obs, epsilon=0.5)


def test_spaces_that_do_not_fit_are_refused() -> None:
    seen = Box(-1, 1, (4,), np.float32)
    for spec, problem in (
        (EnvSpec(seen, MultiDiscrete([2, 2])), "trains several agents; this env has one"),
        (EnvSpec(seen, MultiDiscrete([2, 2]), agents=("a", "b")), r"Dict\(obs: Box\(2, ...\)\)"),
        (EnvSpec(team_spec(2).observation, Box(-1, 1, (2,)), agents=("a", "b")), "discrete"),
        (EnvSpec(team_spec(2).observation, MultiDiscrete([2, 3]), agents=("a", "b")), "equal"),
    ):
        with pytest.raises(ConfigError, match=problem):
            made("vdn", spec)


def test_groups_without_networks_of_their_own_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model.groups: have no effect with share=all"):
        made("vdn", team_spec(2), model={"groups": [0, 1]})


@pytest.mark.parametrize("name", ["vdn", "ippo", "maddpg"])
def test_ends_that_cannot_be_ignored_are_refused(name: str) -> None:
    """Where the environment tells who acts, no one does after the end."""
    spec = team_spec(2, alive=MultiBinary(2))
    cfg = {"env": {"type": "cartpole"}, "policy": {"type": name, "learn": {"ignore_done": True}}}
    with pytest.raises(ConfigError, match=r"ignore_done: this env tells which agents act"):
        bind(compile_config(cfg), spec)


def test_priorities_are_means_over_the_agents_that_act() -> None:
    policy, samples = made("independent_q", team_spec(2, alive=MultiBinary(2))), one_step(SECOND[1])
    alive = np.array([[1, 0], [1, 1]] * 2, np.int8)
    obs = {**samples["obs"], "alive": alive}
    batch = Batch({**samples.columns, "obs": obs, "next_obs": obs}, 4).to_torch()
    model = policy.get_attribute("model")
    with torch.no_grad():
        taken = model.q(batch["obs"]).gather(-1, batch["action"].unsqueeze(-1)).squeeze(-1)
        error = (taken - batch["reward"].unsqueeze(1)).abs().numpy()
        _, priority, _ = policy._loss(batch, None)
    wanted = (error * alive).sum(1) / alive.sum(1)
    np.testing.assert_allclose(priority.numpy(), wanted, rtol=1e-5)


def test_rewards_of_others_than_the_agents_are_refused() -> None:
    fits = team_spec(2)
    rewards = Box(-1, 1, (3,), np.float32)
    spec = EnvSpec(fits.observation, fits.action, rewards, agents=fits.agents)
    with pytest.raises(ConfigError, match=r"one for each of 2 agents; .* rewards \[3\]"):
        made("vdn", spec)


def test_agents_of_one_name_are_refused() -> None:
    fits = team_spec(2)
    spec = EnvSpec(fits.observation, fits.action, agents=("one", "one"))
    with pytest.raises(ConfigError, match=r"several agents are called 'one'"):
        made("vdn", spec)
