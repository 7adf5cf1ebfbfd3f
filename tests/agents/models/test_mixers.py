from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from dicore.errors import ConfigError
from dicore_agents.models.mixers import QMIXMixer, QPLEXMixer, TeamQ, VDNMixer
from dicore_plugins.models import create_model

AGENTS, ACTIONS, STATE = 3, 4, 5


def team(mixer: Any, **mixing: int) -> TeamQ:
    torch.manual_seed(1)
    return TeamQ(mixer, mixing, obs_shape=6, action_shape=ACTIONS, agents=AGENTS)


TEAMS = {
    "vdn": lambda: team(VDNMixer),
    "qmix": lambda: team(QMIXMixer, state_shape=STATE),
    "qplex": lambda: team(QPLEXMixer, state_shape=STATE, actions=ACTIONS),
}


@pytest.mark.parametrize("name", TEAMS)
def test_the_best_joint_action_consists_of_the_best_own_ones(name: str) -> None:
    made, rng = TEAMS[name](), torch.Generator().manual_seed(2)
    obs = {"obs": torch.zeros(8, AGENTS, 6), "state": torch.randn(8, STATE, generator=rng)}
    q = torch.randn(8, AGENTS, ACTIONS, generator=rng)
    best = made.total(q, q.argmax(-1), obs)
    for joint in product(range(ACTIONS), repeat=AGENTS):
        assert (made.total(q, torch.tensor([joint] * 8), obs) <= best + 1e-5).all()


def test_values_of_agents_are_added() -> None:
    q = torch.arange(24.0).view(2, AGENTS, ACTIONS)
    action = torch.tensor([[0, 1, 2], [3, 0, 1]])
    alive = torch.tensor([[1, 1, 1], [1, 0, 1]])
    obs = {"obs": torch.zeros(2, AGENTS, 6), "alive": alive}
    assert TEAMS["vdn"]().total(q, action, obs).tolist() == [0 + 5 + 10, 15 + 21]


def test_the_state_decides_how_values_are_mixed() -> None:
    made = TEAMS["qmix"]()
    q, action = torch.ones(2, AGENTS, ACTIONS), torch.zeros(2, AGENTS, dtype=torch.int64)
    state = torch.stack([torch.zeros(STATE), torch.ones(STATE)])
    one, other = made.total(q, action, {"obs": torch.zeros(2, AGENTS, 6), "state": state})
    assert one != other


def test_what_an_agent_sees_that_does_not_act_has_no_influence() -> None:
    made = TEAMS["qmix"]()
    alive = torch.tensor([[1, 0, 1]])
    rows = torch.ones(1, AGENTS, 6)
    known = {"obs": rows, "alive": alive, "state": torch.ones(1, STATE)}
    unknown = {**known, "obs": rows.clone()}
    unknown["obs"][:, 1] = float("nan")
    action = torch.zeros(1, AGENTS, dtype=torch.int64)
    totals = []
    for obs in (known, unknown):
        made.zero_grad()
        total = made.total(made.q(obs), action, obs)
        total.sum().backward()
        totals.append((total, [each.grad.clone() for each in made.parameters()]))
    assert torch.equal(totals[0][0], totals[1][0])
    for one, other in zip(totals[0][1], totals[1][1], strict=True):
        assert torch.isfinite(one).all()
        assert torch.equal(one, other)


def test_mistakes_are_told_before_a_network_is_built() -> None:
    with pytest.raises(ConfigError, match="agents is missing"):
        create_model({"type": "agent_q", "obs_shape": 3, "action_shape": 2})
    with pytest.raises(ConfigError, match=r"groups: is missing|groups is missing"):
        create_model({"type": "vdn", "share": "group", "agents": 2})
    with pytest.raises(ConfigError, match="names 3 agents, the environment has 2"):
        create_model({"type": "vdn", "share": "group", "agents": 2, "groups": (0, 1, 1)})
    with pytest.raises(ConfigError, match="number the groups from 0 on"):
        create_model({"type": "vdn", "share": "group", "agents": 2, "groups": (0, 2)})


@pytest.mark.parametrize("name", TEAMS)
def test_what_an_agent_chooses_that_does_not_act_has_no_influence(name: str) -> None:
    made, q = TEAMS[name](), torch.randn(1, AGENTS, ACTIONS)
    alive = torch.tensor([[1, 0, 1]])
    obs = {"obs": torch.ones(1, AGENTS, 6), "alive": alive, "state": torch.ones(1, STATE)}
    one, other = (made.total(q, torch.tensor([[1, at, 2]]), obs) for at in (0, 3))
    assert torch.equal(one, other)
    assert name == "vdn" or not torch.equal(one, made.total(q, torch.tensor([[3, 0, 2]]), obs))


@pytest.mark.parametrize("name", ["agents_vac", "agent_q"])
def test_networks_are_built_by_name(name: str) -> None:
    shapes = {"obs_shape": 6, "action_shape": 4, "agents": 3}
    more = {"state_shape": 18} if name == "agents_vac" else {}
    made: Any = create_model({"type": name, **shapes, **more})
    assert made({"obs": torch.zeros(2, 3, 6)})["logit"].shape == (2, 3, 4)
