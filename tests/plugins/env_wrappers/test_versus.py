"""The wrapper `versus`: one agent of two, whose opponent is random, scripted or a frozen policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from dicore.config import compile_config
from dicore.config.writer import saved_tree
from dicore.data.json_codec import dumps
from dicore.errors import ConfigError, EnvError
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import BuildContext, make_env_manager
from dicore_plugins.env_wrappers import Versus, save_snapshot


class Race(gymnasium.Env[Any, Any]):
    """Both act at once; the reward is the difference of the actions, observations those taken."""

    observation_space = spaces.Box(-9, 9, (2, 3), np.float32)
    action_space = spaces.MultiDiscrete([4, 4])
    reward_space = spaces.Box(-9, 9, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.taken: list[list[int]] = []
        return np.zeros((2, 3), np.float32), {"inner": 1}

    def step(self, action: Any) -> Any:
        self.taken.append(action.tolist())
        obs = np.stack([[0, *action], [1, *action]]).astype(np.float32)
        reward = (action - action[::-1]).astype(np.float32)
        return obs, reward, len(self.taken) == 5, False, {}

    def scripted_action(self, side: int) -> int:
        return 2 + side


class Turns(Race):
    """Agents act in turn, the second first; the reward is 1 for the agent that acts."""

    def reset(self, **kwargs: Any) -> Any:
        self.to_play = 1
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        obs, _, terminated, truncated, info = super().step(action)
        reward = np.eye(2, dtype=np.float32)[self.to_play]
        self.to_play = 1 - self.to_play
        return obs, reward, terminated, truncated, info


@pytest.mark.parametrize("side", [0, 1])
def test_what_an_agent_sees_and_earns(side: int) -> None:
    env = Versus(Race(), "scripted", side)
    assert env.observation_space == spaces.Box(-9, 9, (3,), np.float32)
    assert env.action_space == spaces.Discrete(4)
    obs, info = env.reset(seed=0)
    assert (info["inner"], info["side"]) == (1, side)
    other = 3 - side
    obs, reward, *_ = env.step(1)
    taken = [1, other] if side == 0 else [other, 1]
    assert env.unwrapped.taken == [taken]
    assert obs.tolist() == [side, *taken]
    assert reward == 1 - other


def test_turns_of_the_opponent_are_made_with_those_of_the_agent() -> None:
    first, second = (Versus(Turns(), "scripted", side) for side in (0, 1))
    first.reset(seed=0)
    assert len(first.unwrapped.taken) == 1  # the opponent began
    rewards = [first.step(1)[1] for _ in range(2)]
    assert rewards == [1, 1]
    assert [row[1] for row in first.unwrapped.taken[::2]] == [3, 3, 3]
    assert [row[0] for row in first.unwrapped.taken[1::2]] == [1, 1]
    second.reset(seed=0)
    assert second.unwrapped.taken == []
    ends = [second.step(1)[2] for _ in range(3)]
    assert ends == [False, False, True]


def test_sides_and_random_opponents_depend_on_the_seed() -> None:
    def played(seed: int) -> Any:
        env = Versus(Race())
        side = env.reset(seed=seed)[1]["side"]
        for _ in range(4):
            env.step(0)
        return side, env.unwrapped.taken

    assert [played(seed) for seed in range(8)] == [played(seed) for seed in range(8)]
    assert {played(seed)[0] for seed in range(8)} == {0, 1}
    assert len({str(played(seed)) for seed in range(8)}) > 4


def test_a_random_opponent_takes_allowed_actions() -> None:
    class Masked(Race):
        observation_space: Any = spaces.Dict({
            "obs": Race.observation_space, "action_mask": spaces.MultiBinary([2, 4])
        })  # fmt: skip

        @staticmethod
        def masked(obs: Any) -> Any:
            return {"obs": obs, "action_mask": np.array([[1, 1, 1, 1], [0, 1, 0, 0]], np.int8)}

        def reset(self, **kwargs: Any) -> Any:
            obs, info = super().reset(**kwargs)
            return self.masked(obs), info

        def step(self, action: Any) -> Any:
            obs, *rest = super().step(action)
            return self.masked(obs), *rest

    env = Versus(Masked(), side=0)
    assert env.observation_space["action_mask"] == spaces.MultiBinary([4])
    assert env.reset(seed=0)[0]["action_mask"].tolist() == [1, 1, 1, 1]
    for _ in range(5):
        env.step(0)
    assert [row[1] for row in env.unwrapped.taken] == [1] * 5


def policy(bias: int, **options: Any) -> tuple[str, Any]:
    """Returns config and state of a policy that always takes one action."""
    config = compile_config({
        "env": {"type": "cartpole"},
        "policy": {"type": "dqn", "model": {"obs_shape": 3, "action_shape": 4,
                                            "encoder_hidden_size_list": [8]}, **options},
    })  # fmt: skip
    ctx = BuildContext(EnvSpec(spaces.Box(-9, 9, (3,), np.float32), spaces.Discrete(4)))
    state = config.policy.build(ctx).collect_mode.state_dict()
    last = list(state["model"].values())[-1]
    last[:] = 0
    last[bias] = 1e3
    return dumps(saved_tree(config)), state


def test_a_frozen_policy_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "opponent.frame"
    save_snapshot(file, *policy(2))
    env = Versus(Race(), str(file), 0)
    for bias in (2, 1, 3):
        save_snapshot(file, *policy(bias))
        env.reset(seed=0)
        taken = [env.step(0) and env.unwrapped.taken[-1][1] for _ in range(4)]
        assert taken == [bias] * 4
    save_snapshot(file, *policy(1))
    env.step(0)
    assert env.unwrapped.taken[-1][1] == 3  # from the next reset on
    save_snapshot(file, *policy(0, discount_factor=0.5))
    env.reset(seed=0)
    env.step(0)
    assert env.unwrapped.taken[-1][1] == 0


def test_a_frozen_policy_plays_in_workers_and_leaves_the_random_state(tmp_path: Path) -> None:
    import torch

    file = tmp_path / "opponent.frame"
    save_snapshot(file, *policy(2))
    torch.manual_seed(1)
    before = torch.get_rng_state()
    env = Versus(Race(), str(file), 0)
    env.reset(seed=0)
    assert env.step(2)[1] == 0
    assert torch.equal(before, torch.get_rng_state())
    wrapper = {"type": "versus", "opponent": str(file), "side": 0}
    env_cfg = {"type": "two_step", "env_wrapper": [{**wrapper, "opponent": "random"}]}
    compiled = compile_config({"env": env_cfg, "policy": {"type": "dqn"}})
    manager = make_env_manager(compiled.env, "collector", 0, at_most=2)
    manager.launch()
    found = manager.step({0: 1, 1: 1}).value
    assert found.obs.shape == (2, 5)
    assert found.reward.shape == (2,)
    manager.close()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"observation_space": spaces.Box(-9, 9, (3, 2), np.float32)}, "observations of two"),
        ({"action_space": spaces.Discrete(4)}, "actions of two agents alike"),
        ({"action_space": spaces.MultiDiscrete([4, 3])}, "actions of two agents alike"),
        ({"reward_space": None}, "rewards of two agents"),
    ],
)
def test_an_environment_without_two_agents_is_refused(changes: Any, text: str) -> None:
    env = Race()
    for name, value in changes.items():
        setattr(env, name, value)
    with pytest.raises(ConfigError, match=text):
        Versus(env)


def test_what_cannot_be_played_is_told() -> None:
    class Short(Turns):
        def step(self, action: Any) -> Any:
            obs, reward, _, truncated, info = super().step(action)
            return obs, reward, True, truncated, info

    with pytest.raises(EnvError, match="ended before the agent's first turn"):
        Versus(Short(), "random", 0).reset(seed=0)
    with pytest.raises(ConfigError, match="opponent 'scriptd': no such file"):
        Versus(Race(), "scriptd")
    env: Any = Race()
    env.scripted_action = None
    with pytest.raises(ConfigError, match="no scripted opponent"):
        Versus(env, "scripted")


def test_the_environment_has_one_agent() -> None:
    class Named(Race):
        agent_ids = ("left", "right")
        state_space = spaces.Discrete(3)

    assert EnvSpec.of(Named()).agents == ("left", "right")
    spec = EnvSpec.of(Versus(Named()))
    assert (spec.agents, spec.state, spec.reward_shape) == ((), None, ())
