"""Parallel environments of PettingZoo: columns with an axis of agents."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Sequence,
    Text,
    Tuple,
)  # fmt: skip

from dicore.config.compiler import compile_section
from dicore.errors import ConfigError, EnvError
from dicore.run.env_factory import make_env_manager
from dicore.testing.env import failures_of
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.env_managers.adapt import adapt
from dicore_plugins.env_wrappers import ParallelAgents, from_gym
from dicore_plugins.evaluators import InteractionEvaluator
from dicore_plugins.policies.random import RandomPolicy
from dicore_registry import default

pettingzoo = pytest.importorskip("pettingzoo")

NUMBER = Box(1.0, 9.0, (2,), np.float32)


class Race(pettingzoo.ParallelEnv):  # type: ignore[name-defined]
    """Agent k leaves after `k + 2` steps; an agent is paid its action.

    Args:
        sizes: Number of actions of each agent.
        cut: Agents are truncated, not terminated.
        late: The last agent appears at the second step.
    """

    metadata = {"name": "race_v0"}  # noqa: RUF012 - as PettingZoo has it

    def __init__(self, sizes: tuple[int, ...] = (3, 3), *, cut: bool = False, late: bool = False):
        self.possible_agents = [f"runner_{k}" for k in range(len(sizes))]
        self.sizes, self.cut, self.late = sizes, cut, late
        self.given: list[dict[str, Any]] = []
        self.rng: Any = None

    def observation_space(self, agent: str) -> Any:
        return NUMBER

    def action_space(self, agent: str) -> Any:
        return Discrete(self.sizes[self.possible_agents.index(agent)])

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None or self.rng is None:
            self.rng = np.random.default_rng(seed)
        self.agents = self.possible_agents[: -1 if self.late else None]
        self.steps = 0
        return self.show(self.agents), {agent: {"lane": 1} for agent in self.agents[:1]}

    def step(self, actions: dict[str, Any]) -> Any:
        self.given.append(actions)
        self.steps += 1
        acting = list(self.agents)
        gone = {name: int(name[-1]) + 2 == self.steps for name in acting}
        never = dict.fromkeys(acting, False)
        self.agents = [name for name in acting if not gone[name]]
        if self.late and self.steps == 1:
            self.agents.append(self.possible_agents[-1])
        shown = self.show({*acting, *self.agents})
        rewards = {name: float(actions[name]) for name in acting}
        ends = (never, gone) if self.cut else (gone, never)
        return shown, rewards, *ends, {name: {} for name in acting}

    def show(self, agents: Any) -> Any:
        drawn = self.rng.uniform(1, 9)
        return {name: np.array([drawn, 1 + self.steps], np.float32) for name in agents}


def test_agents_that_are_alike_are_stacked() -> None:
    env = ParallelAgents(Race((3, 3, 3)))
    assert env.observation_space == Box(1.0, 9.0, (3, 2), np.float32)
    assert env.action_space == MultiDiscrete([3, 3, 3])
    assert env.reward_space.shape == (3,)
    assert (env.agent_num, env.agents) == (3, ["runner_0", "runner_1", "runner_2"])
    obs, info = env.reset(seed=0)
    assert obs[:, 1].tolist() == [1, 1, 1]
    assert info["alive"].tolist() == [True] * 3
    assert info["agents"] == {"runner_0": {"lane": 1}}


def test_an_agent_that_is_done_is_masked_until_all_are() -> None:
    inner = Race((3, 3, 3))
    env = ParallelAgents(inner)
    env.reset(seed=0)
    told = [env.step(np.array([1, 2, 0])) for _ in range(4)]
    assert [step[4]["alive"].tolist() for step in told] == [
        [True, True, True], [False, True, True], [False, False, True], [False, False, False],
    ]  # fmt: skip
    assert [step[1].tolist() for step in told] == [[1, 2, 0], [1, 2, 0], [0, 2, 0], [0, 0, 0]]
    assert [step[2:4] for step in told] == [(False, False)] * 3 + [(True, False)]
    assert told[1][0][0].tolist() == [told[1][0][1, 0], 3], "the last observation of an agent"
    assert told[2][0][0].tolist() == [1, 1], "what is closest to zero"
    assert list(inner.given[-1]) == ["runner_2"]
    assert all(env.observation_space.contains(step[0]) for step in told)


class Masked(Race):
    """An agent may not repeat its action; one that is done may do nothing."""

    def observation_space(self, agent: str) -> Any:
        return Dict(observation=NUMBER, action_mask=MultiBinary(3))

    def step(self, actions: dict[str, Any]) -> Any:
        if self.steps:
            assert all(self.masks[name][action] for name, action in actions.items())
        self.masks = {name: np.arange(3) != action for name, action in actions.items()}
        return super().step(actions)

    def show(self, agents: Any) -> Any:
        masks = {name: np.ones(3) for name in agents} if not self.steps else self.masks
        return {
            name: {"observation": obs, "action_mask": (masks[name] * (name in self.agents))}
            for name, obs in super().show(agents).items()
        }


def test_masks_of_all_agents_are_obeyed() -> None:
    env = ParallelAgents(Masked((3, 3, 3)))
    policy = RandomPolicy(action_space=env.action_space).collect_mode
    with closing(BaseEnvManager([lambda: env])) as manager:
        manager.launch()
        for _ in range(40):
            answer = manager.step(policy.forward(manager.ready_obs))
            alive = answer[0].info["alive"]
            assert answer.value.obs["action_mask"][0][~alive].all()


def test_truncated_agents_truncate_the_episode() -> None:
    env = ParallelAgents(Race(cut=True))
    env.reset(seed=0)
    ends = [env.step(np.array([0, 0]))[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_an_agent_that_appears_later() -> None:
    env = ParallelAgents(Race(late=True))
    _, info = env.reset(seed=0)
    assert info["alive"].tolist() == [True, False]
    _, reward, *_, info = env.step(np.array([2, 2]))
    assert (reward.tolist(), info["alive"].tolist()) == ([2, 0], [True, True])


def test_agents_that_differ_are_known_by_name() -> None:
    env = ParallelAgents(Race((2, 5)))
    assert env.action_space == Dict(runner_0=Discrete(2), runner_1=Discrete(5))
    assert env.observation_space == Box(1.0, 9.0, (2, 2), np.float32), "which are alike"
    env.reset(seed=0)
    _, reward, *_ = env.step({"runner_0": 1, "runner_1": 4})
    assert reward.tolist() == [1, 4]


@pytest.mark.parametrize(
    "space",
    [Discrete(3, start=2), MultiDiscrete([2, 3]), MultiBinary(3), Text(4), Sequence(Discrete(2)),
     Dict(seen=Box(-1, 1, (2,)), left=Discrete(2)), Tuple((Discrete(2), Box(3, 4, (1,))))],
    ids=str,
)  # fmt: skip
def test_every_space_of_observations(space: Any) -> None:
    class Sees(Race):
        def observation_space(self, agent: str) -> Any:
            return space

        def show(self, agents: Any) -> Any:
            space.seed(int(self.rng.integers(99)))
            return {name: space.sample() for name in agents}

    assert failures_of(lambda: ParallelAgents(Sees())) == {}


def test_the_team_as_one() -> None:
    env = ParallelAgents(Race(), team_reward=True, add_alive=True)
    assert env.reward_space.shape == ()
    assert env.observation_space["alive"] == MultiBinary(2)  # type: ignore[index]
    env.reset(seed=0)
    for _ in range(2):
        obs, reward, *_ = env.step(np.array([1, 2]))
    assert (reward, obs["alive"].tolist()) == (3.0, [0, 1])


@pytest.mark.parametrize("sizes", [(3, 3), (2, 5)])
@pytest.mark.parametrize("add_alive", [False, True])
def test_it_keeps_the_contract_of_environments(sizes: tuple[int, ...], add_alive: bool) -> None:
    make = lambda: ParallelAgents(Race(sizes), add_alive=add_alive)  # noqa: E731
    assert failures_of(make) == {}


def test_what_does_not_list_its_agents() -> None:
    env = Race()
    env.possible_agents = []
    with pytest.raises(EnvError, match=r"race_v0 does not list its agents"):
        ParallelAgents(env)


def test_a_manager_takes_one_as_it_is() -> None:
    race = Race()
    assert isinstance(from_gym(race), ParallelAgents)
    wrapped = gymnasium.wrappers.TimeLimit(adapt(race).env, 5)
    assert adapt(wrapped).time_limit == 5


def test_a_turn_based_env_says_so() -> None:
    with pytest.raises(EnvError, match=r"rps_v2 is turn-based; expected a parallel"):
        adapt(pettingzoo.make("aec", "classic/rps-v2"))


def section(env_id: str, **options: Any) -> Any:
    target = default().resolve("env", "pettingzoo").target
    common = {"type": "pettingzoo", "env_id": env_id, "n_evaluator_episode": 2, "stop_value": 1.0,
              "collector_env_num": 2, "evaluator_env_num": 2,
              "manager": {"type": "base"}}  # fmt: skip
    return compile_section(target, {**common, **options})


def test_collected_and_evaluated_per_agent() -> None:
    """Rock, paper, scissors: 15 rounds, in which one wins what the other loses."""
    cfg = section("classic.rps_v2", env_wrapper=["eval_episode_return"])
    manager, other = (make_env_manager(cfg, role, 0) for role in ("collector", "evaluator"))
    assert manager.info().agent_num == 2
    policy = RandomPolicy(action_space=manager.action_space, rng=np.random.default_rng(0))
    collector = SampleCollector({}, manager, policy.collect_mode)
    block = collector.collect_batch(n_sample=60)
    assert (block["obs"].shape, block["action"].shape) == ((60, 2), (60, 2))
    reward = np.asarray(block["reward"])
    assert (reward.shape, reward.sum()) == ((60, 2), 0)
    assert abs(reward).sum() > 0
    buffer = NaiveReplayBuffer({"replay_buffer_size": 60})
    buffer.push(block)
    assert np.asarray(buffer.sample_batch(8)["reward"]).shape == (8, 2)
    evaluator = InteractionEvaluator({"n_episode": 4}, other, policy.eval_mode)
    result = evaluator.eval()
    returns = np.array([each["eval_episode_return"] for each in result.episode_info])
    assert returns.shape == (4, 2)
    assert not returns.sum(1).any()
    collector.close()
    evaluator.close()


def test_seeds_decide_what_is_seen() -> None:
    cfg = section("sisl.multiwalker_v9", make_kwargs={"max_cycles": 20})

    def told(seed: int) -> Any:
        manager = make_env_manager(cfg, "collector", seed)
        manager.launch()
        action = {i: np.full((3, 4), 0.3, np.float32) for i in range(2)}
        values = [manager.step(action).value for _ in range(25)]
        manager.close()
        assert sum(value.done.sum() for value in values) >= 2
        return np.array([value.obs for value in values])

    pytest.importorskip("Box2D")
    assert told(1).shape == (25, 2, 3, 31)
    np.testing.assert_array_equal(told(1), told(1))
    assert (told(1) != told(2)).any()


@pytest.mark.parametrize(
    ("env_id", "options", "said"),
    [
        ("sisl.pursit_v5", {}, r"env\.env_id: .* 'sisl\.pursit_v5'; did you mean 'sisl\.pursuit_v"),
        ("nothing", {}, r"env\.env_id: .*no parallel environment 'nothing'; install"),
        ("classic.chess_v6", {}, r"env\.env_id: 'classic\.chess_v6' is turn-based"),
        ("classic.rps_v2", {"make_kwargs": {"size": 1}}, r"env\.make_kwargs: .*size"),
    ],
)
def test_mistakes(env_id: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        section(env_id, **options).build(None)


def test_turns_are_played_by_another_component() -> None:
    with pytest.raises(ConfigError) as caught:
        section("classic.chess_v6").build(None)
    assert "env.type=pettingzoo_agents" in str(caught.value.hint)


def test_ids_of_pettingzoo_have_two_forms() -> None:
    for env_id in ("classic.rps_v2", "classic/rps_v2"):
        env = section(env_id).build(None)
        assert env.agents == ["player_0", "player_1"]
        env.close()
