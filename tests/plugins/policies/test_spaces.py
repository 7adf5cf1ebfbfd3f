"""DQN over the observation and action spaces that it supports, and what it says of the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.config import ComponentConfig, frozen, option
from dicore.config.checks import bind
from dicore.config.compiler import compile_config
from dicore.data import Batch
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore.run.launch import launch
from dicore.run.random import seed_everything
from dicore.testing import isolated_registry
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.policies import RandomPolicy, single_env_forward
from dicore_tools.evaluation.evaluate import evaluate

SPACES: dict[str, gym.Space[Any]] = {
    "discrete": spaces.Discrete(5),
    "shifted": spaces.Discrete(5, start=-2),
    "multi_discrete": spaces.MultiDiscrete([3, 4]),
    "multi_discrete_2d": spaces.MultiDiscrete([[3, 4], [2, 2]], start=[[0, -1], [5, 0]]),
    "multi_binary": spaces.MultiBinary(6),
    "dict": spaces.Dict({"place": spaces.Box(-1, 1, (2, 2)), "kind": spaces.Discrete(3, start=1)}),
    "tuple": spaces.Tuple(
        (spaces.Dict({"grey": spaces.Box(0, 2, (2, 2), np.uint8)}), spaces.MultiBinary(2))
    ),
}
WHOLE_WARM_UP = ["policy.collect.random_collect_size=128"]
"""Presets of these environments warm up for longer than the runs here last."""
VECTOR, TWO = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)
BEST: dict[str, tuple[gym.Space[Any], gym.Space[Any], Any]] = {
    **{f"obs_{name}": (space, TWO, 1) for name, space in SPACES.items()},
    "discrete": (VECTOR, spaces.Discrete(3), 1),
    "start": (VECTOR, spaces.Discrete(3, start=5), 6),
    "negative_start": (VECTOR, spaces.Discrete(3, start=-4), -2),
    "multi_discrete": (VECTOR, spaces.MultiDiscrete([3, 4]), [2, 1]),
    "multi_start": (VECTOR, spaces.MultiDiscrete([3, 4], start=[-1, 7]), [1, 8]),
    "multi_int32": (VECTOR, spaces.MultiDiscrete([2, 2], np.int32), [1, 0]),
    "multi_binary": (VECTOR, spaces.MultiBinary(3), [1, 0, 1]),
}


class Guess(gym.Env[Any, Any]):
    """Random observations; the reward is the share of choices that are the best ones."""

    def __init__(self, observed: gym.Space[Any], actions: gym.Space[Any], best: Any) -> None:
        self.observation_space, self.action_space, self.best = observed, actions, np.asarray(best)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        ends = bool(self.np_random.random() < 0.4)
        reward = float(np.mean(action == self.best))
        return self.observation_space.sample(), reward, ends, False, {}


def policy_of(observed: gym.Space[Any], actions: gym.Space[Any], *overrides: str) -> Any:
    compiled = compile_config(
        {"env": {"type": "cartpole"}, "policy": {"type": "dqn"}},
        overrides=["policy.model.encoder_hidden_size_list=[8]", *overrides],
    )
    seed_everything(0)
    return bind(compiled, EnvSpec(observed, actions)).policy.build(None)


@pytest.mark.parametrize(("observed", "actions", "best"), BEST.values(), ids=BEST)
def test_the_best_action_is_learned(
    observed: gym.Space[Any], actions: gym.Space[Any], best: Any
) -> None:
    """From warm-up samples and its own in one buffer, which keeps both as the env defines them."""
    options = ("policy.learn.learning_rate=0.02", "policy.discount_factor=0.0")
    policy = policy_of(observed, actions, *options)
    manager = BaseEnvManager([lambda: Guess(observed, actions, best)] * 4)
    random = RandomPolicy(action_space=actions, like=policy.collect_mode)
    collector = SampleCollector(None, manager, random.collect_mode)
    buffer = NaiveReplayBuffer({})
    buffer.push(collector.collect_batch(n_sample=64))
    collector.reset_policy(policy.collect_mode)
    buffer.push(collector.collect_batch(n_sample=64, policy_kwargs={"eps": 1.0}))
    batch = buffer.sample_batch(32)
    assert all(actions.contains(each) for each in batch["action"].astype(actions.dtype))
    seen = [row["obs"] for row in batch.rows()]
    assert all(each in observed for each in seen)
    for _ in range(100):
        policy.learn_mode.forward(buffer.sample_batch(32))
    chosen = policy.eval_mode.forward(dict(enumerate(seen))).value["action"]
    assert chosen.tolist() == [best] * 32
    ready = manager.ready_obs
    assert policy.eval_mode.forward(ready).value["action"].tolist() == [best] * 4
    assert np.array_equal(single_env_forward(policy.eval_mode)(ready[0]), best)
    collector.close()


@pytest.mark.parametrize("space", [VECTOR, *SPACES.values()], ids=["vector", *SPACES])
def test_acting_by_numpy_by_torch_and_deployed_agree(space: gym.Space[Any]) -> None:
    space.seed(0)
    obs = {i: space.sample() for i in range(40)}
    ways = [policy_of(space, TWO), policy_of(space, TWO, "policy.collect.act_by_numpy=false")]
    with torch.no_grad():
        for way in ways:
            noise = torch.Generator().manual_seed(1)
            for each in way.get_attribute("model").parameters():
                each.copy_(torch.randn(each.shape, generator=noise))
    by_numpy, by_torch = (way.eval_mode.forward(obs).value for way in ways)
    np.testing.assert_allclose(by_numpy["logit"], by_torch["logit"], rtol=1e-4, atol=1e-5)
    assert by_numpy["action"].tolist() == by_torch["action"].tolist()
    assert set(by_numpy["action"]) == {0, 1}
    act = single_env_forward(ways[0].eval_mode)
    assert [act(each) for each in obs.values()] == by_numpy["action"].tolist()


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_actions_of_any_width_are_counted_from_the_least(dtype: Any) -> None:
    policy = policy_of(VECTOR, spaces.Discrete(3, start=5))
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
def test_other_actions_are_refused_when_bound(space: gym.Space[Any]) -> None:
    with pytest.raises(ConfigError, match=r"policy\.type: 'dqn' needs") as caught:
        policy_of(VECTOR, space)
    assert "\n" not in caught.value.message
    nested = isinstance(space, spaces.Dict | spaces.Tuple)
    assert not nested or "flatten it to MultiDiscrete" in caught.value.hint


MASKED = {
    "dqn": (spaces.Discrete(3), [3]),
    "discrete_bcq": (spaces.Discrete(3), [3]),
    "discrete_sac": (spaces.Discrete(3), [3]),
    "dt": (spaces.Discrete(3), [3]),
    "ppo": (spaces.MultiDiscrete([3, 3]), [2, 3]),
    "paddpg": (spaces.Dict(action_type=spaces.Discrete(3), action_args=VECTOR), [3]),
    "pdqn": (spaces.Dict(action_type=spaces.Discrete(3), action_args=VECTOR), [3]),
}


@pytest.mark.parametrize("name", MASKED)
def test_an_action_mask_of_another_width_is_refused_when_bound(name: str) -> None:
    actions, shape = MASKED[name]
    compiled = compile_config({"env": {"type": "cartpole"}, "policy": {"type": name}})

    def bound(*sides: int, key: str = "action_mask") -> Any:
        return bind(
            compiled, EnvSpec(spaces.Dict({"x": VECTOR, key: spaces.MultiBinary(sides)}), actions)
        )

    assert len(bound(*shape).policy.model.obs_parts) == 2
    with pytest.raises(ConfigError, match=r"action_mask has .* numbers for 3.* actions; expected"):
        bound(*shape[:-1], 4)
    assert bound(*shape[:-1], 4, key="seen")


def test_masks_of_heads_and_categorical_ones_fit_and_continuous_actions_have_none() -> None:
    several = spaces.Tuple([spaces.MultiBinary(3), spaces.MultiBinary(2)])
    for mask, actions in (
        (several, spaces.MultiDiscrete([3, 2])),
        (spaces.MultiDiscrete([2, 2, 2]), spaces.Discrete(3)),
        (spaces.MultiBinary(7), VECTOR),
    ):
        compiled = compile_config({"env": {"type": "cartpole"}, "policy": {"type": "ppo"}})
        assert bind(compiled, EnvSpec(spaces.Dict(x=VECTOR, action_mask=mask), actions))


def test_a_model_of_one_array_refuses_nested_observations() -> None:
    """A foreign model, for instance one that `dicore new plugin` generated."""

    @frozen(kw_only=True)
    class Plain(ComponentConfig):
        """Takes one array."""

        obs_shape: int | None = option(None, "numbers")
        encoder_hidden_size_list: tuple[int, ...] = option((), "units")

    with isolated_registry("dicore-plugins", "dicore-contrib-envs") as registry:
        registry.register("model", "plain")(Plain)
        message = r"'plain' takes one numeric array.*Discrete"
        with pytest.raises(ConfigError, match=message) as caught:
            policy_of(SPACES["dict"], TWO, "policy.model=plain")
    assert "env.env_wrapper=flat_obs" in str(caught.value.hint)


@pytest.mark.parametrize("env", ["FrozenLake-v1", "Blackjack-v1"])
def test_a_resumed_run_equals_an_uninterrupted_one(env: str, tmp_path: Path) -> None:
    def train(name: str, steps: int, *, resume: bool = False) -> Any:
        given: dict[str, Any] = {
            "exp_name": str(tmp_path / name), "env": env, "policy": "dqn", "seed": 0,
            "overrides": ["pipeline.logger=[]", "env.stop_value=2", *WHOLE_WARM_UP,
                          "policy.learn.update_per_collect=2", "policy.learn.target_update_freq=7",
                          "env.n_evaluator_episode=2",
                          "env.evaluator_env_num=2"],
        }  # fmt: skip
        given = {"resume": str(tmp_path / name)} if resume else given
        return launch(**given, max_env_step=steps)

    whole, _ = train("whole", 1280), train("half", 640)  # whole collects of 64 samples
    rest = train("half", 1280, resume=True)
    assert rest.run.result.env_step == whole.run.result.env_step == 1280
    one, two = (each.policy.get_attribute("model").state_dict() for each in (whole, rest))
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert len(evaluate(tmp_path / "half", n_episode=5, seed=1).returns) == 5
    saved = json.loads((tmp_path / "half" / "config.json").read_text())
    assert "obs_parts" in json.dumps(saved)
