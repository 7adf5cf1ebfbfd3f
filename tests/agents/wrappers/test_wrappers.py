"""Several agents as one, and one as several."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from dicore.config import bind, compile_config
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import make_env_manager
from dicore.run.launch import launch
from dicore.testing.env import failures_of
from dicore_agents import AgentsAsOne, KuhnPoker, OneAsAgents, TwoStepGame


class Pushed(gymnasium.Env[Any, Any]):
    """Two agents push; observations are what both pushed last."""

    agent_ids = ("left", "right")
    observation_space = Dict(obs=Box(-1, 1, (2, 3), np.float32))
    action_space = Box(-1, 1, (2, 3), np.float32)
    reward_space = Box(-9, 9, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return {"obs": np.zeros((2, 3), np.float32)}, {}

    def step(self, action: Any) -> Any:
        return {"obs": np.array(action)}, action.sum(1), True, False, {}


def test_a_team_as_one_agent() -> None:
    env = AgentsAsOne(Pushed())
    spec = EnvSpec.of(env)
    assert (spec.agents, spec.state, spec.reward_shape) == ((), None, ())
    assert spec.observation == spec.action == Box(-1, 1, (6,), np.float32)
    env.reset(seed=0)
    action = np.linspace(-1, 0.5, 6, dtype=np.float32)
    obs, reward, terminated, *_ = env.step(action)
    assert obs.tolist() == action.tolist()
    assert (reward, terminated) == (pytest.approx(action.sum()), True)
    assert failures_of(lambda: AgentsAsOne(Pushed())) == {}


def test_masks_of_a_team_stay_those_of_its_choices() -> None:
    env = AgentsAsOne(KuhnPoker())
    assert env.observation_space == Dict(obs=Box(0, 1, (20,)), action_mask=MultiBinary([2, 2]))
    assert env.action_space == MultiDiscrete([2, 2])
    assert failures_of(lambda: AgentsAsOne(KuhnPoker())) == {}


def test_the_wrapped_team_in_a_manager_and_in_a_training(tmp_path: Any) -> None:
    cfg = compile_config({
        "env": {"type": "two_step_game", "env_wrapper": ["agents_as_one"]}, "policy": "dqn",
    })  # fmt: skip
    manager = make_env_manager(cfg.env, "collector", 0)
    assert EnvSpec.of(manager) == EnvSpec.of(AgentsAsOne(TwoStepGame()))
    manager.close()
    result = launch(
        env="two_step_game", policy="dqn", seed=0, exp_name=str(tmp_path / "run"), max_env_step=64,
        overrides=["env.env_wrapper=[agents_as_one]", "pipeline.logger=[]",
                   "policy.collect.n_sample=64", "policy.learn.batch_size=8"],
    )  # fmt: skip
    assert result is not None


class Masked(gymnasium.Env[Any, Any]):
    """One agent, whose second action is forbidden."""

    observation_space = Dict(seen=Box(1, 2, (2,), np.float32), action_mask=MultiBinary(3))
    action_space = Discrete(3, start=1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        return self.seen(), float(action), True, False, {}

    def seen(self) -> Any:
        return {"seen": np.ones(2, np.float32), "action_mask": np.array([1, 0, 1], np.int8)}


def test_one_agent_as_a_team() -> None:
    env = OneAsAgents(Masked())
    spec = EnvSpec.of(env)
    assert (spec.agents, spec.action, spec.reward_shape) == (("agent_0",), MultiDiscrete([3]), ())
    obs, _ = env.reset(seed=0)
    assert obs["obs"].tolist() == [[1, 1]]
    assert obs["action_mask"].tolist() == [[1, 0, 1]]
    assert env.step(np.array([2]))[1] == 3.0
    assert failures_of(lambda: OneAsAgents(Masked())) == {}


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
def test_one_agent_sees_and_earns_what_it_did(env_id: str) -> None:
    plain, team = gymnasium.make(env_id), OneAsAgents(gymnasium.make(env_id))
    seen, _ = plain.reset(seed=3)
    rows, _ = team.reset(seed=3)
    plain.action_space.seed(3)
    for _ in range(5):
        flat: Any = gymnasium.spaces.flatten(plain.observation_space, seen)
        assert rows["obs"].tolist() == [flat.tolist()]
        action = plain.action_space.sample()
        seen, *told, _ = plain.step(action)
        rows, *found, _ = team.step(np.asarray(action)[None])
        assert found == told
        if told[1]:
            break


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(ConfigError, match="'agents_as_one' needs an environment of several"):
        AgentsAsOne(gymnasium.make("CartPole-v1"))
    with pytest.raises(ConfigError, match="'one_as_agents' needs an environment of one agent"):
        OneAsAgents(TwoStepGame())
    with pytest.raises(ConfigError, match="the action of an agent is one choice"):
        OneAsAgents(AgentsAsOne(TwoStepGame()))


@pytest.mark.parametrize("policy", ["dqn", "ppo", "sac", "dt", "r2d2"])
def test_a_policy_of_one_agent_refuses_a_team(policy: str) -> None:
    box = Box(-1, 1, (2, 3), np.float32)
    acts = box if policy == "sac" else MultiDiscrete([2, 2])
    spec = EnvSpec(Dict(obs=box), acts, agents=("left", "right"))
    compiled = compile_config({"env": {"type": "cartpole"}, "policy": {"type": policy}})
    with pytest.raises(ConfigError, match=f"'{policy}' trains one agent; this env has left, right"):
        bind(compiled, spec)
