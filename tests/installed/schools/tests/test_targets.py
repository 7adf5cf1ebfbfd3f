"""Values, advantages and time limits against returns that are known."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from schools_rl.config import PPOConfig, ReinforceConfig, SACConfig

from dicore.config import bind, compile_config, compile_section
from dicore.data import Batch
from dicore.run import BuildContext, seed_everything
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager

GAMMA = 0.9


class Line(gymnasium.Env):
    """Pays 1 per step and shows the step; ends after `length` steps, in one way or the other."""

    def __init__(self, length: int, *, limit: bool) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 100, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.length, self.limit = length, limit

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        over = self.t == self.length
        obs = np.array([self.t], np.float32)
        return obs, 1.0, over and not self.limit, over and self.limit, {}


class Critic(torch.nn.Module):
    """Values a state by its number, times `scale`."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(scale))

    def forward(self, obs: Any) -> dict[str, Any]:
        value = obs.float()[:, 0] * self.scale
        return {"logit": value.unsqueeze(1) * torch.zeros(2), "value": value}


def envs() -> list[Any]:
    return [lambda: Line(3, limit=False), lambda: Line(4, limit=True), lambda: Line(5, limit=True)]


def collected(config: Any, count: dict[str, int], scale: float, *amounts: int) -> list[Batch]:
    """The samples of several calls."""
    seed_everything(0)
    manager = BaseEnvManager(envs())
    manager.seed(0)
    options = {
        "type": "one",
        "discount_factor": GAMMA,
        "model": {"type": "actor_critic", "obs_shape": 1, "action_shape": 2},
    }
    policy = compile_section(config, options).build(BuildContext(), model=Critic(scale))
    collector = SampleCollector({"n_sample": 1}, manager, policy.collect_mode)
    (unit,) = count
    found = [collector.collect_batch(**{unit: amount}).copy() for amount in amounts]
    collector.close()
    return found


def returns(env: int, step: int, rows_left: int, scale: float) -> float:
    """The discounted rewards until the episode or the block ends, and the value that follows.

    What is left of the block is `rows_left` rows, this one included.
    """
    length = (3, 4, 5)[env]
    steps = min(length - step, rows_left)
    reached = step + steps
    terminal = env == 0 and reached == length
    value = 0.0 if terminal else scale * reached
    return sum(GAMMA**k for k in range(steps)) + GAMMA**steps * value


@pytest.mark.parametrize("scale", [0.0, 1.0, -2.5])
@pytest.mark.parametrize("amounts", [(60,), (30, 30), (3, 9, 21, 27), (33, 3, 24)])
def test_targets_are_the_returns(amounts: tuple[int, ...], scale: float) -> None:
    """With lambda = 1 the target is the return, as far as the block reaches."""
    seen = 0
    for batch in collected(LambdaOne, {"n_sample": 0}, scale, *amounts):
        rows = len(batch) // 3
        for index, row in enumerate(batch.rows()):
            t, env = index // 3, int(row["env_id"])
            step = (seen + t) % (3, 4, 5)[env]
            assert float(row["obs"][0]) == step
            target = returns(env, step, rows - t, scale)
            assert row["target"] == pytest.approx(target, rel=1e-5)
            assert row["advantage"] == pytest.approx(target - scale * step, rel=1e-4, abs=1e-5)
        seen += rows
    assert seen == 20


class LambdaOne(PPOConfig):
    """PPO whose targets are returns."""

    def build(self, ctx: Any, **parts: Any) -> Any:
        from schools_rl.ppo import PPO

        policy = PPO(self, **parts)
        policy._get_train_sample = lambda block, tail: policy._advantages(block, tail, 1.0)
        return policy


@pytest.mark.parametrize("scale", [0.0, 2.0])
def test_targets_of_whole_episodes_are_the_returns(scale: float) -> None:
    (batch,) = collected(ReinforceConfig, {"n_episode": 0}, scale, 7)
    assert int(batch["end"].sum()) == 7
    assert len(batch) == 3 * 3 + 2 * 4 + 2 * 5
    for row in batch.rows():
        target = returns(int(row["env_id"]), int(row["obs"][0]), 99, scale)
        assert row["target"] == pytest.approx(target, rel=1e-5)


def test_replayed_samples_tell_terminations_from_truncations() -> None:
    """SAC's target after a time limit is that of any other step."""
    seed_everything(0)
    compiled = bind(
        compile_config([{"env": {"type": "pendulum"}, "policy": {"type": "school_sac"}}]),
        *spaces(gymnasium.make("Pendulum-v1")),
    )
    policy = compiled.cfg.policy.build(BuildContext())
    rows = 6
    batch = Batch(
        {
            "obs": np.zeros((rows, 3), np.float32), "next_obs": np.ones((rows, 3), np.float32),
            "action": np.zeros((rows, 1), np.float32), "reward": np.ones(rows, np.float32),
            "done": np.array([0, 1, 0, 1, 0, 0], np.float32),
        }
    ).to_torch()  # fmt: skip
    target = policy._target(batch, torch.zeros(1)).numpy()
    assert (target[[1, 3]] == 1).all()
    assert (target[[0, 2, 4, 5]] != 1).all()
    assert isinstance(compiled.cfg.policy, SACConfig)


def spaces(env: Any) -> Any:
    return env.observation_space, env.action_space
