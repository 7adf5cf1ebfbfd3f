"""HAPPO: agents learn one after another, weighed by how the earlier ones changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import MultiBinary

from dicore.errors import ConfigError
from tests.agents.policies.actor_critic.games import acted, drawn, made, payoff, team_spec

SGD: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 0.1, "max_grad_norm": None}


def state_of(policy: Any) -> dict[str, torch.Tensor]:
    state = policy.learn_mode.state_dict()["model"]
    return {name: each.clone() for name, each in state.items()}


def test_a_team_of_one_learns_as_mappo() -> None:
    spec, states = team_spec(1), []
    learn = {**SGD, "batch_size": None, "epoch_per_collect": 3, "entropy_weight": 0.1}
    for name in ("mappo", "happo"):
        policy = made(
            name, spec, learn=learn, model={"share": "all" if name == "mappo" else "none"}
        )
        samples = acted(policy, drawn(spec, 64), lambda action: action[:, 0].astype(np.float32))
        policy.learn_mode.forward(samples)
        states.append(state_of(policy))
    for name, each in states[0].items():
        torch.testing.assert_close(each, states[1][name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "rmsprop"])
def test_an_agents_turn_moves_its_own_actor_alone(optimizer: str) -> None:
    spec = team_spec(3)
    policy = made("happo", spec, learn={"optimizer": optimizer})
    samples = acted(policy, drawn(spec, 64), payoff).to_torch()
    policy.learn_mode.forward(samples)
    before = state_of(policy)
    assert policy._agent_updates(1, samples, {})
    after = state_of(policy)
    for name, each in before.items():
        moved = (each != after[name]).flatten(1).any(1)
        assert moved.tolist() == [False, name.startswith("actor"), False]


def test_the_second_agent_weighs_advantages_by_the_first() -> None:
    spec = team_spec(alive=MultiBinary(2))
    policy = made("happo", spec, learn={**SGD, "adv_norm": False, "epoch_per_collect": 1})
    obs = drawn(spec, 32)
    obs["alive"][::4, 0] = 0
    samples = acted(policy, obs, payoff).to_torch()
    seen: dict[int, torch.Tensor] = {}
    turns = policy._agent_updates

    def noted(agent: int, batch: Any, settings: Any) -> Any:
        seen[agent] = batch["advantage"][:, agent] / samples["advantage"][:, agent]
        return turns(agent, batch, settings)

    policy._agent_updates = noted
    policy.learn_mode.forward(samples)
    first, second = seen
    torch.testing.assert_close(seen[first], torch.ones(32))
    logit = policy.get_attribute("model").distribution(samples["obs"])["logit"][:, first]
    log_prob = torch.log_softmax(logit, -1).gather(1, samples["action"][:, first, None])[:, 0]
    ratio = (log_prob - samples["log_prob"][:, first]).exp()
    ratio = torch.where(samples["obs"]["alive"][:, first] > 0, ratio, 1.0)
    assert (ratio != 1).any()
    torch.testing.assert_close(seen[second], ratio, rtol=1e-4, atol=1e-4)


def test_the_order_of_agents_changes() -> None:
    spec = team_spec()
    policy, orders = made("happo", spec, learn={"epoch_per_collect": 1}), set()
    samples = acted(policy, drawn(spec, 8), payoff)
    order: list[int] = []
    policy._next_factor = lambda agent, batch, factor: order.append(agent) or factor
    for _ in range(12):
        order.clear()
        policy.learn_mode.forward(samples)
        orders.add(tuple(order))
    assert orders == {(0, 1), (1, 0)}


def test_rewards_of_agents_are_added_up() -> None:
    spec = team_spec()
    policy, obs = made("happo", spec), drawn(spec, 8)
    given = {"action": np.zeros((8, 2), np.int64), "logit": np.zeros((8, 2, 3), np.float32)}
    each = acted(policy, obs, lambda _: np.tile(np.float32([1, 2]), (8, 1)), **given)
    whole = acted(policy, obs, lambda _: np.full(8, 3, np.float32), **given)
    np.testing.assert_array_equal(each["target"], whole["target"])


def test_shared_networks_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.share: agents learn one after another"):
        made("happo", team_spec(), model={"share": "all"})
    decay = {"optimizer": {"type": "adamw", "weight_decay": 0.1}}
    with pytest.raises(ConfigError, match="would move agents that do not learn"):
        made("happo", team_spec(), learn=decay)
