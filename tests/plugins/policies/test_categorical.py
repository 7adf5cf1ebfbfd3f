"""DQN where observations are categories, or of several parts: kept, learned from, deployed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from dicore.config.bind import bind
from dicore.config.compile import compile_config
from dicore.run.evaluate import evaluate
from dicore.run.launch import launch
from dicore.run.rng import seed_everything
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.policies import single_env_forward

SPACES: dict[str, gym.Space[Any]] = {
    "discrete": gym.spaces.Discrete(5),
    "shifted": gym.spaces.Discrete(5, start=-2),
    "multi_discrete": gym.spaces.MultiDiscrete([3, 4]),
    "multi_discrete_2d": gym.spaces.MultiDiscrete([[3, 4], [2, 2]], start=[[0, -1], [5, 0]]),
    "multi_binary": gym.spaces.MultiBinary(6),
    "dict": gym.spaces.Dict(
        {"place": gym.spaces.Box(-1, 1, (2, 2)), "kind": gym.spaces.Discrete(3, start=1)}
    ),
    "tuple": gym.spaces.Tuple(
        (
            gym.spaces.Dict({"grey": gym.spaces.Box(0, 2, (2, 2), np.uint8)}),
            gym.spaces.MultiBinary(2),
        )
    ),
}


class Show(gym.Env[Any, Any]):
    """Shows what is drawn from a space; ends now and then."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, space: gym.Space[Any]) -> None:
        self.observation_space = space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        ends = bool(self.np_random.random() < 0.2)
        return self.observation_space.sample(), float(action), ends, False, {}


def policy_of(space: gym.Space[Any], *overrides: str) -> Any:
    compiled = compile_config(
        {"env": {"type": "cartpole"}, "policy": {"type": "dqn"}},
        overrides=["policy.model.encoder_hidden_size_list=[8]", *overrides],
    )
    seed_everything(0)
    return bind(compiled, space, Show.action_space).policy.build(None)


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_they_are_kept_as_they_are_and_learned_from(space: gym.Space[Any]) -> None:
    """The reward is the action, so whatever is seen, 1 is better."""
    policy = policy_of(space, "policy.learn.learning_rate=0.01", "policy.discount_factor=0.0")
    manager = BaseEnvManager([lambda: Show(space)] * 4)
    collector = SampleCollector(None, manager, policy.collect_mode)
    buffer = NaiveReplayBuffer({})
    buffer.push(collector.collect_batch(64, policy_kwargs={"eps": 0.5}))
    batch = buffer.sample_batch(32)
    rows = [row["obs"] for row in batch.rows()]
    assert all(each in space for each in rows)
    for _ in range(100):
        policy.learn_mode.forward(batch)
    seen = dict(enumerate(rows))
    assert set(policy.eval_mode.forward(seen).value["action"]) == {1}
    collector.close()


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_acting_by_numpy_by_torch_and_deployed_agree(space: gym.Space[Any]) -> None:
    space.seed(0)
    obs = {i: space.sample() for i in range(40)}
    ways = [policy_of(space), policy_of(space, "policy.collect.act_by_numpy=false")]
    with torch.no_grad():
        for way in ways:
            noise = torch.Generator().manual_seed(1)
            for each in way.get_attribute("model").parameters():
                each.copy_(torch.randn(each.shape, generator=noise))
    by_numpy, by_torch = (way.eval_mode.forward(obs).value for way in ways)
    np.testing.assert_allclose(by_numpy["logit"], by_torch["logit"], rtol=1e-4, atol=1e-5)
    assert set(by_numpy["action"]) == {0, 1}
    act = single_env_forward(ways[0].eval_mode)
    assert [act(each) for each in obs.values()] == by_numpy["action"].tolist()


@pytest.mark.parametrize("env", ["FrozenLake-v1", "Blackjack-v1"])
def test_a_run_goes_on_and_is_measured(env: str, tmp_path: Path) -> None:
    """Half, and then the rest, is what the whole would have been."""

    def train(name: str, steps: int, **wishes: Any) -> Any:
        folder = {"resume": str(tmp_path / name)} if wishes else {"exp_name": str(tmp_path / name)}
        base = {} if wishes else {"env": env, "policy": "dqn", "seed": 0}
        return launch(
            **base,
            **folder,
            max_env_step=steps,
            overrides=[] if wishes else ["pipeline.logger=[]", "env.stop_value=2"],
        )

    whole, _ = train("whole", 1200), train("half", 600)
    rest = train("half", 1200, resume=True)
    assert rest.run.result.env_step == whole.run.result.env_step == 1200
    one, two = (each.policy.get_attribute("model").state_dict() for each in (whole, rest))
    assert all(torch.equal(one[key], two[key]) for key in one)
    measured = evaluate(tmp_path / "half", n_episode=5, seed=1)
    assert len(measured.returns) == 5
    saved = json.loads((tmp_path / "half" / "config.json").read_text())
    assert "obs_parts" in json.dumps(saved)
