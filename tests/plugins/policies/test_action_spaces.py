"""DQN over every action space it fits: actions are the environment's own, in buffers too."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from dicore.config.bind import bind
from dicore.config.compile import compile_config
from dicore.data import Batch
from dicore.errors import ConfigError
from dicore.run.random import seed_everything
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.policies import RandomPolicy, single_env_forward

BEST: dict[str, tuple[gym.Space[Any], Any]] = {
    "discrete": (spaces.Discrete(3), 1),
    "start": (spaces.Discrete(3, start=5), 6),
    "negative_start": (spaces.Discrete(3, start=-4), -2),
    "multi_discrete": (spaces.MultiDiscrete([3, 4]), [2, 1]),
    "multi_start": (spaces.MultiDiscrete([3, 4], start=[-1, 7]), [1, 8]),
    "multi_int32": (spaces.MultiDiscrete([2, 2], np.int32), [1, 0]),
    "multi_binary": (spaces.MultiBinary(3), [1, 0, 1]),
}
SEEN = spaces.Box(-1, 1, (2,), np.float32)


class Guess(gym.Env[Any, Any]):
    """Pays for each choice that is the best one."""

    observation_space = SEEN

    def __init__(self, space: gym.Space[Any], best: Any) -> None:
        self.action_space, self.best = space, np.asarray(best)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._look(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        ends = bool(self.np_random.random() < 0.5)
        return self._look(), float(np.mean(action == self.best)), ends, False, {}

    def _look(self) -> Any:
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)


def policy_of(space: gym.Space[Any], *overrides: str) -> Any:
    compiled = compile_config(
        {"env": {"type": "cartpole"}, "policy": {"type": "dqn"}},
        overrides=["policy.model.encoder_hidden_size_list=[16]", *overrides],
    )
    seed_everything(0)
    return bind(compiled, SEEN, space).policy.build(None)


@pytest.mark.parametrize(("space", "best"), BEST.values(), ids=BEST)
def test_the_best_action_is_learned(space: gym.Space[Any], best: Any) -> None:
    """Out of warm-up data and of its own, in one buffer."""
    policy = policy_of(space, "policy.learn.learning_rate=0.02", "policy.discount_factor=0.5")
    manager = BaseEnvManager([lambda: Guess(space, best)] * 4)
    random = RandomPolicy(action_space=space, like=policy.collect_mode)
    collector = SampleCollector(None, manager, random.collect_mode)
    buffer = NaiveReplayBuffer({})
    buffer.push(collector.collect_batch(64))
    collector.reset_policy(policy.collect_mode)
    buffer.push(collector.collect_batch(64, policy_kwargs={"eps": 1.0}))
    stored = buffer.sample_batch(32)["action"]
    assert all(space.contains(each) for each in stored.astype(space.dtype))
    for _ in range(100):
        policy.learn_mode.forward(buffer.sample_batch(32))
    ready = manager.ready_obs
    chosen = policy.eval_mode.forward(ready).value["action"]
    assert chosen.tolist() == [best] * 4
    assert np.array_equal(single_env_forward(policy.eval_mode)(ready[0]), best)
    collector.close()


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_actions_of_any_width_are_counted_from_the_least(dtype: Any) -> None:
    policy = policy_of(spaces.Discrete(3, start=5))
    obs = np.zeros((4, 2), np.float32)
    rows = {"obs": obs, "next_obs": obs, "action": np.array([5, 6, 7, 5], dtype)}
    rows |= {"reward": np.ones(4, np.float32), "done": np.ones(4, np.float32)}
    assert policy.learn_mode.forward(Batch(rows))["priority"].shape == (4,)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (2,), np.float32),
        spaces.MultiDiscrete([[2, 2], [2, 2]]),
        spaces.MultiBinary([2, 2]),
        spaces.Dict({"turn": spaces.Discrete(2)}),
        spaces.Text(3),
    ],
    ids=lambda space: type(space).__name__,
)
def test_other_spaces_are_refused_when_bound(space: gym.Space[Any]) -> None:
    with pytest.raises(ConfigError, match=r"policy\.type: 'dqn' needs") as told:
        policy_of(space)
    assert "\n" not in told.value.message
    nested = isinstance(space, spaces.Dict | spaces.Tuple)
    assert not nested or "flatten the action space" in told.value.hint
