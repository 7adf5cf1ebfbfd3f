"""The checks of environments of several agents find what is planted, and nothing in ours."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

from dicore_agents import KuhnPoker, TicTacToe, TwoStepGame, failures_of_agents
from tests.agents.envs.test_packages import section
from tests.agents.policies.actor_critic.games import Mortals
from tests.agents.wrappers.test_agent_flat import Rooms


class Leaving(gymnasium.Env[Any, Any]):
    """The second agent leaves after three steps; the episode ends after six."""

    agent_ids: tuple[str, ...] = ("one", "other")
    paid_when_dead, alive_at_end, two, cut = 0.0, 0, 1, False
    nobody, stuck = False, False

    def __init__(self) -> None:
        self.observation_space = Dict(
            obs=Box(0, 9, (2, 2)), alive=MultiBinary(2), action_mask=MultiBinary([2, 3])
        )
        self.action_space = MultiDiscrete([3, 3])
        self.reward_space = Box(-9, 9, (2,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._steps = 0
        return self._seen(over=False), {}

    def step(self, action: Any) -> Any:
        self._steps += 1
        over = self._steps == 6
        paid = np.array([1.0, 1.0 if self._steps <= 3 else self.paid_when_dead], np.float32)
        return self._seen(over=over), paid, over and not self.cut, over and self.cut, {}

    def _seen(self, *, over: bool) -> Any:
        alive = np.array([self.two, self._steps < 3], np.int8) * (not self.nobody)
        alive = np.array([self.alive_at_end, 0], np.int8) if over else alive
        mask = np.ones((2, 3), np.int8) * (not self.stuck)
        return {"obs": np.zeros((2, 2), np.float32), "alive": alive, "action_mask": mask}


@pytest.mark.parametrize(
    ("planted", "check"),
    [
        ({}, None),
        ({"cut": True, "alive_at_end": 1}, None),
        ({"paid_when_dead": 1.0}, "dead"),
        ({"cut": True}, "end"),
        ({"two": 2}, "alive"),
        ({"nobody": True}, "start"),
        ({"stuck": True}, "mask"),
        ({"agent_ids": ("one", "one")}, "form"),
        ({"agent_ids": ("a", "b", "c")}, "form"),
    ],
    ids=str,
)
def test_what_is_planted_is_found(planted: dict[str, Any], check: str | None) -> None:
    kind = type("Planted", (Leaving,), planted)
    found = failures_of_agents(kind, episodes=2)
    assert check in found if check else not found, found


def test_one_agent_is_told() -> None:
    found = failures_of_agents(lambda: gymnasium.make("CartPole-v1"))
    assert found == {"form": "agent_ids is missing: list the names of the agents"}


@pytest.mark.parametrize("make", [KuhnPoker, Mortals, Rooms, TicTacToe, TwoStepGame])
def test_ours_keep_them(make: Any) -> None:
    assert failures_of_agents(make) == {}


@pytest.mark.parametrize(
    ("package", "env", "options"),
    [
        ("lbforaging", "lbforaging", {}),
        ("rware", "rware", {}),
        ("mpe2", "pettingzoo_agents:mpe2.simple_tag_v3", {"pad": True}),
        ("pettingzoo", "pettingzoo_agents:classic.rps_v2", {"api": "aec"}),
        ("vmas", "vmas:simple_spread", {"max_steps": 5}),
    ],
)
def test_those_of_packages_keep_them(package: str, env: str, options: dict[str, Any]) -> None:
    pytest.importorskip(package)
    cfg = section(env, **options)
    assert failures_of_agents(lambda: cfg.build(None), episodes=2, steps=30) == {}
