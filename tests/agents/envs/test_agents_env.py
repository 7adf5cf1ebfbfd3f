"""Parallel environments in the form of teams: rows, masks, who is alive, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Sequence

from dicore.errors import ConfigError, EnvError
from dicore.interfaces.env import EnvSpec
from dicore.testing.env import failures_of
from dicore_agents import AgentsEnv

NUMBERS = Box(1.0, 9.0, (2,), np.float32)
THREE = (Discrete(3),) * 3


class Race:
    """Agent k leaves after `k + 2` steps; an agent is paid its action.

    Args:
        seen: What each agent sees.
        acting: Its actions.
        cut: Agents that are truncated, not terminated.
        late: The last agent appears at the second step.
    """

    def __init__(
        self, seen: Any = (NUMBERS, NUMBERS, NUMBERS), acting: Any = THREE,
        cut: tuple[int, ...] = (), late: bool = False,
    ) -> None:  # fmt: skip
        self.possible_agents = [f"runner_{k}" for k in range(len(seen))]
        self.agents: list[str] = []
        self.seen, self.acting, self.cut, self.late = seen, acting, cut, late
        self.given: list[Any] = []
        self.rng = np.random.default_rng(0)
        self.closed = False

    def observation_space(self, agent: str) -> Any:
        return self.seen[self.possible_agents.index(agent)]

    def action_space(self, agent: str) -> Any:
        return self.acting[self.possible_agents.index(agent)]

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents = self.possible_agents[: -1 if self.late else None]
        self.steps = 0
        return self.show(self.agents), {agent: {"lane": 1} for agent in self.agents[:1]}

    def step(self, actions: dict[str, Any]) -> Any:
        self.given.append(actions)
        self.steps += 1
        acting = list(self.agents)
        gone = {name: int(name[-1]) + 2 == self.steps for name in acting}
        cut = {name: int(name[-1]) in self.cut and gone[name] for name in acting}
        ended = {name: gone[name] and not cut[name] for name in acting}
        self.agents = [name for name in acting if not gone[name]]
        if self.late and self.steps == 1:
            self.agents.append(self.possible_agents[-1])
        rewards = {name: float(np.sum(actions[name])) for name in acting}
        return self.show({*acting, *self.agents}), rewards, ended, cut, {}

    def show(self, agents: Any) -> Any:
        lane = float(self.rng.uniform(1, 9))
        return {name: self.value(name, lane) for name in agents}

    def value(self, name: str, lane: float) -> Any:
        space = self.observation_space(name)
        if space is NUMBERS:
            return np.array([lane, 1 + self.steps], np.float32)
        space.seed(int(lane * 100))
        return space.sample()

    def close(self) -> None:
        self.closed = True

    def __str__(self) -> str:
        return "race"


class Stated(Race):
    state_space = Box(-np.inf, np.inf, (2, 2), np.float64)

    def state(self) -> Any:
        return np.full((2, 2), self.steps, np.float64)


def played(env: AgentsEnv, steps: int, action: Any) -> list[Any]:
    env.reset(seed=0)
    return [env.step(np.array(action)) for _ in range(steps)]


def test_agents_have_a_row_each() -> None:
    env = AgentsEnv(Race())
    spec = EnvSpec.of(env)
    assert (spec.agents, spec.state) == (("runner_0", "runner_1", "runner_2"), None)
    assert spec.observation == Dict(obs=Box(0, 9, (3, 2), np.float32), alive=MultiBinary(3))
    assert (spec.action, spec.reward_shape) == (MultiDiscrete([3, 3, 3]), (3,))
    obs, info = env.reset(seed=0)
    assert obs["obs"][:, 1].tolist() == [1, 1, 1]
    assert obs["alive"].tolist() == [1, 1, 1]
    assert info == {"agents": {"runner_0": {"lane": 1}}}
    env.close()
    assert env.env.closed


def test_an_agent_that_dies_is_not_alive_and_its_actions_are_ignored() -> None:
    inner = Race()
    told = played(AgentsEnv(inner), 4, [1, 2, 0])
    alive = [step[0]["alive"].tolist() for step in told]
    assert alive == [[1, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0]]
    assert [step[1].tolist() for step in told] == [[1, 2, 0], [1, 2, 0], [0, 2, 0], [0, 0, 0]]
    assert [step[2:4] for step in told] == [(False, False)] * 3 + [(True, False)]
    assert told[1][0]["obs"][0].tolist() == [told[1][0]["obs"][1, 0], 3], "what it saw last"
    assert told[2][0]["obs"][0].tolist() == [0, 0]
    assert list(inner.given[-1]) == ["runner_2"]


def test_who_is_truncated_with_the_episode_would_have_acted() -> None:
    *_, last = played(AgentsEnv(Race(cut=(2,))), 4, [0, 0, 0])
    assert (last[2], last[3]) == (False, True)
    assert last[0]["alive"].tolist() == [0, 0, 1]


def test_who_is_truncated_while_others_go_on_is_gone() -> None:
    told = played(AgentsEnv(Race(cut=(0,))), 4, [0, 0, 0])
    assert told[1][0]["alive"].tolist() == [0, 1, 1]
    assert told[1][2:4] == (False, False)
    assert told[3][2:4] == (True, False)


def test_an_agent_that_comes_late() -> None:
    env = AgentsEnv(Race(late=True))
    seen, _ = env.reset(seed=0)
    assert seen["alive"].tolist() == [1, 1, 0]
    assert not seen["obs"][2].any()
    seen, reward, *_ = env.step(np.array([2, 2, 2]))
    assert (reward.tolist(), seen["alive"].tolist()) == ([2, 2, 0], [1, 1, 1])


def test_the_state_and_the_reward_of_the_team() -> None:
    env = AgentsEnv(Stated(), state=True, team_reward=True)
    spec = EnvSpec.of(env)
    assert spec.state == Box(-np.inf, np.inf, (4,), np.float32)
    assert spec.reward_shape == ()
    (step,) = played(env, 1, [1, 2, 2])
    assert step[0]["state"].tolist() == [1, 1, 1, 1]
    assert step[1] == 5.0
    assert failures_of(lambda: AgentsEnv(Stated(), state=True, team_reward=True)) == {}


def test_unlike_agents_are_padded_by_choice() -> None:
    seen = Box(-2.0, -1.0, (1,), np.float32), NUMBERS
    inner = Race(seen, (Discrete(2, start=5), Discrete(4)))
    env = AgentsEnv(inner, pad=True)
    assert env.action_space == MultiDiscrete([4, 4])
    obs, _ = env.reset(seed=0)
    assert obs["obs"].shape == (2, 2)
    assert obs["obs"][0, 1] == 0
    assert env.observation_space["obs"].low.tolist() == [[-2, 0], [0, 0]]  # type: ignore[index]
    assert obs["action_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    env.step(np.array([1, 3]))
    env.step(np.array([3, 3]))
    assert [*inner.given] == [{"runner_0": 6, "runner_1": 3}] * 2
    assert failures_of(lambda: AgentsEnv(Race(seen, (Discrete(2), Discrete(4))), pad=True)) == {}


def test_continuous_actions_are_split() -> None:
    acting = Box(-1, 1, (1,), np.float32), Box(-2, 2, (2,), np.float32)
    inner = Race((NUMBERS, NUMBERS), acting)
    env = AgentsEnv(inner, pad=True)
    assert env.action_space.shape == (2, 2)
    env.reset(seed=0)
    env.step(np.array([[0.5, 9], [1, 2]], np.float32))
    assert [each.tolist() for each in inner.given[0].values()] == [[0.5], [1, 2]]
    assert "action_mask" not in env.observation_space.spaces  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("pad", "seen", "acting", "text"),
    [
        (False, (NUMBERS, Box(0, 1, (3,))), (Discrete(2),) * 2,
         r"observations of different sizes: runner_0 \[2\], runner_1 \[3\]"),
        (True, (NUMBERS, Box(0, 1, (3, 3))), (Discrete(2),) * 2, "observations of different sizes"),
        (False, (NUMBERS, NUMBERS), (Discrete(2), Discrete(3)),
         r"choices of different sizes: runner_0 \[2\]"),
        (False, (NUMBERS, NUMBERS), (Discrete(2), Box(0, 1, (2,))), "is one choice"),
        (False, (Sequence(Discrete(2)),) * 2, (Discrete(2),) * 2, r"runner_0 sees Sequence"),
    ],
    ids=["sizes", "arrays", "choices", "kinds", "text"],
)  # fmt: skip
def test_what_does_not_fit_is_told(pad: bool, seen: Any, acting: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        AgentsEnv(Race(seen, acting), pad=pad)
    assert caught.value.hint


class Masked(Race):
    """An agent may not repeat its action; one that is done may do nothing."""

    in_info = False

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.masks = dict.fromkeys(self.possible_agents, np.ones(3, np.int8))
        obs, _ = super().reset(seed, options)
        return obs, self.infos()

    def step(self, actions: dict[str, Any]) -> Any:
        assert all(self.masks[name][action] for name, action in actions.items())
        self.masks = {
            name: (np.arange(3) != each).astype(np.int8) for name, each in actions.items()
        }
        *told, _ = super().step(actions)
        return *told, self.infos()

    def infos(self) -> Any:
        return {}

    def observation_space(self, agent: str) -> Any:
        return NUMBERS if self.in_info else Dict(observation=NUMBERS, action_mask=MultiBinary(3))

    def show(self, agents: Any) -> Any:
        seen = {name: np.array([1, 1 + self.steps], np.float32) for name in agents}
        if self.in_info:
            return seen
        return {
            name: {"observation": obs, "action_mask": self.masks[name] * (name in self.agents)}
            for name, obs in seen.items()
        }


class InInfo(Masked):
    in_info = True

    def infos(self) -> Any:
        return {name: {"action_mask": mask} for name, mask in self.masks.items()}


@pytest.mark.parametrize("in_info", [False, True])
def test_masks_are_those_of_the_agents_and_allow_the_dead_all(in_info: bool) -> None:
    env = AgentsEnv(InInfo() if in_info else Masked(), info_mask=in_info)
    seen, info = env.reset(seed=0)
    assert (seen["action_mask"].all(), info) == (True, {})
    masks = [env.step(np.array(action))[0]["action_mask"] for action in ([0, 1, 2], [1, 2, 0])]
    assert masks[0].tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    assert masks[1].tolist() == [[1, 1, 1], [1, 1, 0], [0, 1, 1]]


def test_masks_in_infos_that_nobody_reads_are_told() -> None:
    with pytest.raises(EnvError, match="which nobody would obey") as caught:
        AgentsEnv(InInfo()).reset(seed=0)
    assert caught.value.hint == "set env.info_mask=true"


def test_a_mask_that_forbids_all_is_told() -> None:
    env = AgentsEnv(Masked())
    env.env.masks = None
    env.reset(seed=0)
    env.env.show = lambda agents: {
        name: {"observation": np.ones(2, np.float32), "action_mask": np.zeros(3)} for name in agents
    }
    with pytest.raises(EnvError, match="race: runner_0 acts next, but its mask forbids all"):
        env.step(np.array([0, 0, 0]))


def test_an_episode_in_which_nobody_acts_is_told() -> None:
    env = AgentsEnv(Race())
    env.env.possible_agents = []
    with pytest.raises(EnvError, match="nobody acts in an episode"):
        env.reset(seed=0)


def test_agents_that_die_where_none_should_are_told() -> None:
    env = AgentsEnv(Race(), alive=False)
    assert [*env.observation_space.spaces] == ["obs"]  # type: ignore[attr-defined]
    env.reset(seed=0)
    env.step(np.array([0, 0, 0]))
    with pytest.raises(EnvError, match=r"runner_0 does not act while others do"):
        env.step(np.array([0, 0, 0]))


def test_a_state_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError, match=r"env\.state: race gives no global state") as caught:
        AgentsEnv(Race(), state=True)
    assert "drop env.state" in str(caught.value.hint)


def test_agents_that_are_not_listed_are_told() -> None:
    env = Race()
    env.possible_agents = []
    with pytest.raises(EnvError, match="race does not list its agents"):
        AgentsEnv(env)


def test_images_stay_bytes_and_choices_become_one_hot() -> None:
    picture, choice = Box(0, 255, (4, 4, 1), np.uint8), Discrete(3, start=1)
    env = AgentsEnv(Race((picture, picture), (Discrete(2),) * 2))
    obs, _ = env.reset(seed=0)
    assert (obs["obs"].dtype, obs["obs"].shape) == (np.uint8, (2, 4, 4, 1))
    obs, _ = AgentsEnv(Race((choice, choice), (Discrete(2),) * 2)).reset(seed=0)
    assert (obs["obs"].dtype, obs["obs"].sum(1).tolist()) == (np.float32, [1, 1])


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("cut", [(), (0, 1, 2)])
def test_it_keeps_the_contract_of_environments(cut: Any, late: bool) -> None:
    assert failures_of(lambda: AgentsEnv(Race(cut=cut, late=late))) == {}
